/**
 * `renewal`: the requests of an account that renews, between two certificates.
 *
 * One operation reads renewal information (RFC 9773 §4.2), then gets a certificate for the old name by an order with
 * `replaces` (§5). It reads the CRL once, and changes the account key now and then (RFC 8555 §7.3.5).
 *
 * A client that looks twice a day at a certificate of 47 days, renewed after 31, has read 62 times (`--renewal-reads`).
 */

import { X509Certificate } from 'node:crypto'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { type AcmeClient, parseObject, retryAfterSeconds } from '../client/acme.ts'
import { certIdOf } from '../client/certificate-id.ts'
import { Failure } from '../client/http.ts'
import { type Account, changeKey, type Issued } from '../client/resources.ts'
import { crlChecker } from './checks.ts'
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

const COMMON = { usesAccounts: true, answersChallenges: true } as const

/** POST-as-GET of a certificate that was issued before. */
export const certificateDownload: Scenario = {
  ...COMMON,
  floor: { verifications: 1, signatures: 0 },
  async prepareAccount(client, context, account) {
    account.issued = await issueCertificate(client, context, account, context.nextName(account))
  },
  async operate(client, { nextAccount }) {
    const account = nextAccount()
    const { certificateUrl, chainPem } = account.issued as Issued
    const { body } = await client.post('certificate', account, certificateUrl, '')
    if (body.toString('latin1') !== chainPem)
      throw new Failure('check-chain', 'the certificate differs from the first download of it')
  },
}

export const renewalInformation: Scenario = {
  ...COMMON,
  floor: undefined,
  prepareAccount: issueWithCertId,
  async operate(client, context) {
    await readRenewalInfo(client, context, context.nextAccount())
  },
}

/** One certificate for all clients says where the list is; the first account makes it. */
export function crlDownload(): Scenario {
  let first: { url: string; chainPem: string } | undefined
  return {
    ...COMMON,
    floor: undefined,
    async prepareAccount(client, context, account) {
      if (first) return
      const { chainPem } = await issueCertificate(client, context, account, context.nextName(account))
      const url = crlOf(chainPem, context)
      if (url === undefined) throw new Error('the certificates name no CRL at the origin of the directory')
      first = { url, chainPem }
    },
    async operate(client) {
      if (!first) throw new Error('the scenario has prepared no certificate')
      await readCrl(client, first.url, first.chainPem)
    },
  }
}

/** A certificate that can be renewed. @throws Error when the server has no renewal information */
async function issueWithCertId(client: AcmeClient, context: Context, account: Account): Promise<void> {
  if (context.directory.renewalInfo === undefined) throw new Error('the directory has no renewalInfo (RFC 9773)')
  keepIssued(account, await issueCertificate(client, context, account, context.nextName(account)))
}

/** Keeps a certificate with its certID (RFC 9773 §4.1). */
function keepIssued(account: Account, issued: Issued): void {
  const certId = certIdOf(new X509Certificate(issued.chainPem).raw)
  if (certId === undefined) throw new Failure('check-chain', 'the certificate has no authorityKeyIdentifier')
  account.issued = { ...issued, certId }
}

/** RFC 9773 §4.2. @throws Failure `check-renewal-info` */
async function readRenewalInfo(client: AcmeClient, { directory }: Context, { issued }: Account): Promise<void> {
  const response = await client.get('renewal-info', `${directory.renewalInfo}/${issued?.certId}`)
  const { suggestedWindow } = parseObject(response)
  const { start, end } = (suggestedWindow ?? {}) as { start?: unknown; end?: unknown }
  if (!(Date.parse(String(start)) < Date.parse(String(end))))
    throw new Failure('check-renewal-info', `no suggested window: ${JSON.stringify(suggestedWindow)}`)
  if (retryAfterSeconds(response) === undefined)
    throw new Failure('check-renewal-info', 'the answer has no Retry-After')
}

/** The CRL that the first certificate of a chain names (RFC 5280 §4.2.1.13); undefined where it is another server's. */
function crlOf(chainPem: string, { target }: Context): string | undefined {
  const [url] = parseCertificate(new X509Certificate(chainPem).raw).tbs.crlDistributionPointUrls
  const directory = new URL(target.directoryUrl)
  if (url === undefined || new URL(url).hostname !== directory.hostname) return undefined
  // A list that is named at a port without TLS is there too, for the client that is measured.
  return directory.origin + new URL(url).pathname
}

const checks = new Map<string, (der: Buffer) => void>()

/** @throws Failure `check-crl` */
async function readCrl(client: AcmeClient, url: string, chainPem: string): Promise<void> {
  const check = checks.get(url) ?? crlChecker(chainPem)
  checks.set(url, check)
  check((await client.get('crl', url)).body)
}
