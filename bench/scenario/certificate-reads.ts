/** Reads about certificates that are there: the download, renewal information (RFC 9773), and the CRL of their issuer. */

import { X509Certificate } from 'node:crypto'
import { parseCertificate } from '../../src/pki/certificate.ts'
import { crlChecker } from '../check/crl.ts'
import { checkRenewalInfo } from '../check/renewal-info.ts'
import type { Account, Issued } from '../client/account.ts'
import { Failure } from '../client/failure.ts'
import { issueCertificate } from './issue.ts'
import { type Context, type Scenario, Unsupported } from './scenario.ts'

/** The certID of the first certificate of a chain (RFC 9773 §4.1). @throws Failure `check-chain` without a key identifier. */
export function certIdOf(chainPem: string): string {
  const { serialNumber, authorityKeyIdentifier } = parseCertificate(new X509Certificate(chainPem).raw).tbs
  if (!authorityKeyIdentifier) throw new Failure('check-chain', 'the certificate has no authorityKeyIdentifier')
  return `${authorityKeyIdentifier.toString('base64url')}.${serialNumber.toString('base64url')}`
}

/** @throws Unsupported */
export function requireRenewalInfo({ directory }: Context): string {
  if (directory.renewalInfo === undefined) throw new Unsupported('the directory has no renewalInfo (RFC 9773)')
  return directory.renewalInfo
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
  let url = ''
  let check: ((der: string) => void) | undefined
  return {
    summary: 'GET the CRL that the certificates name',
    usesAccounts: true,
    answersChallenges: true,
    floor: undefined,
    async prepareAccount(client, context, account) {
      if (check) return
      const { chainPem } = await issueCertificate(client, context, account, context.nextName(account))
      const [found] = parseCertificate(new X509Certificate(chainPem).raw).tbs.crlDistributionPointUrls
      if (found === undefined)
        throw new Unsupported('the certificates name no CRL; --start --scenario crl starts a service with one')
      if (new URL(found).origin !== new URL(context.directoryUrl).origin)
        throw new Unsupported(`the CRL is at ${found}, which is another server than the directory's`)
      url = found
      check = crlChecker(chainPem)
    },
    async operate(client) {
      const { body } = await client.get('crl', url)
      check?.(body)
    },
  }
}
