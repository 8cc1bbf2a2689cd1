/** Reads about certificates that are there: the download, renewal information (RFC 9773), and the CRL of their issuer. */

import { X509Certificate } from 'node:crypto'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { crlChecker } from '../check/crl.ts'
import { checkRenewalInfo } from '../check/renewal-info.ts'
import type { Account, Issued } from '../client/account.ts'
import type { AcmeClient } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import { issueCertificate } from './issue.ts'
import { type Context, type Scenario, Unsupported } from './scenario.ts'

function leafOf(chainPem: string) {
  return parseCertificate(new X509Certificate(chainPem).raw).tbs
}

/** The certID of the first certificate of a chain (RFC 9773 §4.1). @throws Failure `check-chain` without a key identifier. */
export function certIdOf(chainPem: string): string {
  const { serialNumber, authorityKeyIdentifier } = leafOf(chainPem)
  if (!authorityKeyIdentifier) throw new Failure('check-chain', 'the certificate has no authorityKeyIdentifier')
  return `${authorityKeyIdentifier.toString('base64url')}.${serialNumber.toString('base64url')}`
}

/** @throws Unsupported */
export function requireRenewalInfo({ directory }: Context): string {
  if (directory.renewalInfo === undefined) throw new Unsupported('the directory has no renewalInfo (RFC 9773)')
  return directory.renewalInfo
}

/** The CRL that the first certificate of a chain names (RFC 5280 §4.2.1.13), or why there is none to read. */
export function findCrl(chainPem: string, { directoryUrl }: Context): { url: string } | { missing: string } {
  const [url] = leafOf(chainPem).crlDistributionPointUrls
  if (url === undefined)
    return { missing: 'the certificates name no CRL; --start --scenario crl starts a service with one' }
  if (new URL(url).origin !== new URL(directoryUrl).origin)
    return { missing: `the CRL is at ${url}, which is another server than the directory's` }
  return { url }
}

/** @throws Unsupported */
export function requireCrl(chainPem: string, context: Context): string {
  const crl = findCrl(chainPem, context)
  if ('missing' in crl) throw new Unsupported(crl.missing)
  return crl.url
}

/** @returns a function that reads the CRL of a certificate; each list that comes is checked once. */
export function crlReader() {
  const checks = new Map<string, (der: string) => void>()
  return async (client: AcmeClient, url: string, chainPem: string): Promise<void> => {
    const check = checks.get(url) ?? crlChecker(chainPem)
    checks.set(url, check)
    check((await client.get('crl', url)).body)
  }
}

function requireIssued(account: Account): Issued {
  if (!account.issued) throw new Error('the scenario has prepared no certificate')
  return account.issued
}

export const certificateDownload: Scenario = {
  summary: 'POST-as-GET of a certificate issued before',
  usesAccounts: true,
  answersChallenges: true,
  floor: { jwsVerifications: 1, csrVerifications: 0, signatures: 0 },
  async prepareAccount(client, context, account) {
    account.issued = await issueCertificate(client, context, account, context.nextName(account))
  },
  async operate(client, { nextAccount }) {
    const account = nextAccount()
    const { certificateUrl, chainPem } = requireIssued(account)
    const { body } = await client.post('certificate', account, certificateUrl, '')
    if (body !== chainPem) throw new Failure('check-chain', 'the certificate differs from the first download of it')
  },
}

export const renewalInformation: Scenario = {
  summary: 'GET renewalInfo of a certificate (RFC 9773)',
  usesAccounts: true,
  answersChallenges: true,
  floor: undefined,
  async prepareAccount(client, context, account) {
    requireRenewalInfo(context)
    account.issued = await issueCertificate(client, context, account, context.nextName(account))
    account.certId = certIdOf(account.issued.chainPem)
  },
  async operate(client, context) {
    const { certId } = context.nextAccount()
    const url = `${requireRenewalInfo(context)}/${certId}`
    checkRenewalInfo(await client.get('renewal-info', url))
  },
}

/** One certificate for all clients says where the list is; the first account makes it. */
export function crlDownload(): Scenario {
  let first: { url: string; chainPem: string } | undefined
  const readCrl = crlReader()
  return {
    summary: 'GET the CRL that the certificates name',
    usesAccounts: true,
    answersChallenges: true,
    floor: undefined,
    async prepareAccount(client, context, account) {
      if (first) return
      const { chainPem } = await issueCertificate(client, context, account, context.nextName(account))
      first = { url: requireCrl(chainPem, context), chainPem }
    },
    async operate(client) {
      if (!first) throw new Error('the scenario has prepared no certificate')
      await readCrl(client, first.url, first.chainPem)
    },
  }
}
