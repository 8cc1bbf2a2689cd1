/**
 * `renewal`: the requests of an account that renews, between two certificates.
 *
 * One operation reads renewal information (RFC 9773 §4.2), then gets a certificate for the old name by an order with
 * `replaces` (§5). It reads the CRL once, and changes the account key now and then (RFC 8555 §7.3.5).
 *
 * A client that looks twice a day at a certificate of 47 days, renewed after 31, has read 62 times (`--renewal-reads`).
 */

import { type Account, changeKey } from '../client/account.ts'
import type { AcmeClient } from '../client/acme.ts'
import { crlOf, issueWithCertId, keepIssued, readCrl, readRenewalInfo } from './certificate-reads.ts'
import { ISSUANCE_FLOOR, issueCertificate } from './issue.ts'
import { type Context, type Scenario, thumbprintName } from './scenario.ts'

/** One renewal in so many comes with a new key. */
const KEY_CHANGE_EVERY = 50

export const renewal: Scenario = {
  usesAccounts: true,
  answersChallenges: true,
  floor: ISSUANCE_FLOOR,
  prepareAccount: issueWithCertId,
  async operate(client, context) {
    // One at a time for each account: a certificate is replaced once.
    const account = context.takeAccount()
    try {
      await renew(client, context, account)
    } catch (error) {
      // Half a renewal may have been done: the next one begins with a certificate of its own.
      account.issued = undefined
      throw error
    } finally {
      account.isTaken = false
    }
  },
}

async function renew(client: AcmeClient, context: Context, account: Account): Promise<void> {
  if (account.issued === undefined) await issueWithCertId(client, context, account)
  const { name, certId } = account.issued as NonNullable<Account['issued']>
  for (let read = 0; read < context.target.renewalReads; read++) await readRenewalInfo(client, context, account)

  const issued = await issueCertificate(client, context, account, name, certId)
  keepIssued(account, issued)
  const url = crlOf(issued.chainPem, context)
  if (url !== undefined) await readCrl(client, url, issued.chainPem)
  account.renewals++
  // Spread over the accounts, so that a short run has some too.
  const { keyChange } = context.directory
  if (keyChange === undefined || (account.renewals + account.index) % KEY_CHANGE_EVERY !== 0) return
  await changeKey(client, keyChange, account)
  await context.publish({ name: thumbprintName(account.index), text: account.thumbprint })
}
