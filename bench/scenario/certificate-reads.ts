/** Reads about certificates that are there: the download, renewal information (RFC 9773), and the CRL of their issuer. */

import { X509Certificate } from 'node:crypto'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { crlChecker } from '../check/crl.ts'
import type { Account, Issued } from '../client/account.ts'
import { type AcmeClient, parseObject, retryAfterSeconds } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import { issueCertificate } from './issue.ts'
import type { Context, Scenario } from './scenario.ts'

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
export async function issueWithCertId(client: AcmeClient, context: Context, account: Account): Promise<void> {
  if (context.directory.renewalInfo === undefined) throw new Error('the directory has no renewalInfo (RFC 9773)')
  keepIssued(account, await issueCertificate(client, context, account, context.nextName(account)))
}

/** With its certID (RFC 9773 §4.1). */
export function keepIssued(account: Account, issued: Issued): void {
  const { serialNumber, authorityKeyIdentifier } = leafOf(issued.chainPem)
  if (!authorityKeyIdentifier) throw new Failure('check-chain', 'the certificate has no authorityKeyIdentifier')
  const certId = `${authorityKeyIdentifier.toString('base64url')}.${serialNumber.toString('base64url')}`
  account.issued = { ...issued, certId }
}

/** RFC 9773 §4.2. @throws Failure `check-renewal-info` */
export async function readRenewalInfo(client: AcmeClient, { directory }: Context, { issued }: Account): Promise<void> {
  const response = await client.get('renewal-info', `${directory.renewalInfo}/${issued?.certId}`)
  const { suggestedWindow } = parseObject(response)
  const { start, end } = (suggestedWindow ?? {}) as { start?: unknown; end?: unknown }
  if (!(Date.parse(String(start)) < Date.parse(String(end))))
    throw new Failure('check-renewal-info', `no suggested window: ${JSON.stringify(suggestedWindow)}`)
  if (retryAfterSeconds(response) === undefined)
    throw new Failure('check-renewal-info', 'the answer has no Retry-After')
}

/** The CRL that the first certificate of a chain names (RFC 5280 §4.2.1.13); undefined where it is another server's. */
export function crlOf(chainPem: string, { target }: Context): string | undefined {
  const [url] = leafOf(chainPem).crlDistributionPointUrls
  const directory = new URL(target.directoryUrl)
  if (url === undefined || new URL(url).hostname !== directory.hostname) return undefined
  // A list that is named at a port without TLS is there too, for the client that is measured.
  return directory.origin + new URL(url).pathname
}

const checks = new Map<string, (der: Buffer) => void>()

/** @throws Failure `check-crl` */
export async function readCrl(client: AcmeClient, url: string, chainPem: string): Promise<void> {
  const check = checks.get(url) ?? crlChecker(chainPem)
  checks.set(url, check)
  check((await client.get('crl', url)).body)
}

function leafOf(chainPem: string) {
  return parseCertificate(new X509Certificate(chainPem).raw).tbs
}
