/**
 * `renewal`: what an account that renews does between two certificates.
 *
 * One operation is the life of one certificate as its CA sees it: the reads of renewal information (RFC 9773 §4.2), then a
 * certificate for the old name by an order that says what it replaces (§5), what those who meet the new one read of its CRL, and every
 * now and then a new account key (RFC 8555 §7.3.5) and what an administrator reads meanwhile. A certificate of 47 days is renewed
 * after some 31, and a client that looks twice a day has read 62 times by then; who renews 90-day certificates reads 120 times, who
 * renews 6-day certificates 8 times (`--renewal-reads`).
 */

import { checkRenewalInfo } from '../check/renewal-info.ts'
import type { Account, Issued } from '../client/account.ts'
import type { AcmeClient } from '../client/acme.ts'
import { administrator } from './admin-reads.ts'
import { certIdOf, crlReader, findCrl, requireCrl, requireRenewalInfo } from './certificate-reads.ts'
import { ISSUANCE_FLOOR, issueCertificate } from './issue.ts'
import { changeKey } from './key-change.ts'
import type { Context, Scenario } from './scenario.ts'

/** One renewal in so many comes with a new key, one with what an administrator reads. */
const KEY_CHANGE_EVERY = 50
const ADMIN_READS_EVERY = 50
/** How many meet a certificate and read its CRL, its CA cannot know; one makes sure that somebody always does. */
const CRL_READS = 1

const readCrl = crlReader()
const admin = administrator()

export const renewal: Scenario = {
  summary: `renewalInfo reads, then a certificate that replaces the old one, and its CRL; each ${KEY_CHANGE_EVERY}th time a new account key`,
  usesAccounts: true,
  answersChallenges: true,
  floor: ISSUANCE_FLOOR,
  async prepareAccount(client, context, account) {
    requireRenewalInfo(context)
    const { chainPem } = await issueFirst(client, context, account)
    if (context.crlReads) requireCrl(chainPem, context)
    await admin.prepare(context)
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

  const { chainPem } = keep(account, await issueCertificate(client, context, account, issued!.name, certId))
  await readCrls(client, context, chainPem)
  account.renewals++
  // Spread over the accounts, so that a short run has some too.
  const turn = account.renewals + account.index
  if (turn % KEY_CHANGE_EVERY === 0) await changeKey(client, context, account)
  if (turn % ADMIN_READS_EVERY === 0) await admin.read(client, context)
}

async function readCrls(client: AcmeClient, context: Context, chainPem: string): Promise<void> {
  if (context.crlReads === 0) return
  const crl = findCrl(chainPem, context)
  if ('missing' in crl) return
  for (let read = 0; read < (context.crlReads ?? CRL_READS); read++) await readCrl(client, crl.url, chainPem)
}

async function issueFirst(client: AcmeClient, context: Context, account: Account): Promise<Issued> {
  return keep(account, await issueCertificate(client, context, account, context.nextName(account)))
}

/** What its next renewal begins with. */
function keep(account: Account, issued: Issued): Issued {
  account.issued = issued
  account.certId = certIdOf(issued.chainPem)
  return issued
}
