/**
 * `renewal`: what an account that renews does between two certificates.
 *
 * One operation is the life of one certificate as its CA sees it: the reads of renewal information (RFC 9773 §4.2), then a
 * certificate for the old name by an order that says what it replaces (§5), and every now and then a new account key
 * (RFC 8555 §7.3.5). A certificate of 47 days is renewed after some 31, and a client that looks twice a day has read 62 times by
 * then; who renews 90-day certificates reads 120 times, who renews 6-day certificates 8 times (`--renewal-reads`).
 */

import { checkRenewalInfo } from '../check/renewal-info.ts'
import type { Account } from '../client/account.ts'
import type { AcmeClient } from '../client/acme.ts'
import { certIdOf, requireRenewalInfo } from './certificate-reads.ts'
import { ISSUANCE_FLOOR, issueCertificate } from './issue.ts'
import { changeKey } from './key-change.ts'
import type { Context, Scenario } from './scenario.ts'

/** One renewal in so many comes with a new key. */
const KEY_CHANGE_EVERY = 50

export const renewal: Scenario = {
  summary: `renewalInfo reads, then a certificate that replaces the old one; each ${KEY_CHANGE_EVERY}th time a new account key`,
  usesAccounts: true,
  answersChallenges: true,
  floor: ISSUANCE_FLOOR,
  async prepareAccount(client, context, account) {
    requireRenewalInfo(context)
    await issueFirst(client, context, account)
  },
  async operate(client, context) {
    // One at a time for each account: a certificate is replaced once, and a key is one key.
    const account = context.takeAccount()
    try {
      await renew(client, context, account)
    } catch (error) {
      // Half a renewal may have been done: the next one begins with a certificate of its own.
      account.certId = undefined
      throw error
    } finally {
      context.giveBack(account)
    }
  },
}

async function renew(client: AcmeClient, context: Context, account: Account): Promise<void> {
  if (account.certId === undefined) await issueFirst(client, context, account)
  const { certId, issued } = account
  const url = `${requireRenewalInfo(context)}/${certId}`
  for (let read = 0; read < context.renewalReads; read++) checkRenewalInfo(await client.get('renewal-info', url))

  account.issued = await issueCertificate(client, context, account, issued!.name, certId)
  account.certId = certIdOf(account.issued.chainPem)
  account.renewals++
  // Spread over the accounts, so that a short run has some too.
  if ((account.renewals + account.index) % KEY_CHANGE_EVERY === 0) await changeKey(client, context, account)
}

async function issueFirst(client: AcmeClient, context: Context, account: Account): Promise<void> {
  account.issued = await issueCertificate(client, context, account, context.nextName(account))
  account.certId = certIdOf(account.issued.chainPem)
}
