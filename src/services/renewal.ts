/** Renewal information (RFC 9773): the window of a certificate, and which certificate an order may replace. */

import { renewalRetryAfter, renewalWindow } from '../domain/renewal-window.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { parseCertId, type RenewalInfo } from '../shared/protocol/renewal-info.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { RenewableCertificate, RenewalStore } from '../store/renewal-store.ts'

export interface RenewalPolicy {
  /** Share of the lifetime after which the window opens. */
  renewalPercentage: number
  maxRetryAfterSeconds: number
}

export interface Renewal {
  /** @throws Problem malformed, 404 for a certID that names no certificate of this server */
  info(certId: string, now: Date): Promise<RenewalInfo>
  /**
   * The certificate an order may replace, as far as it can be told without the other orders that replace it.
   * @throws Problem malformed, unauthorized when it is another account's
   */
  requirePredecessor(
    accountId: string,
    certId: string,
    identifiers: readonly Identifier[],
  ): Promise<RenewableCertificate>
}

export function createRenewal(
  store: Pick<RenewalStore, 'findBySerial'>,
  issuers: Pick<CertificateStore, 'findIssuerChain'>,
  policy: RenewalPolicy,
): Renewal {
  /** By issuer fingerprint, for good: an issuer certificate never changes under it. */
  const keyIdentifiers = new Map<string, Buffer>()

  async function keyIdentifierOf(fingerprint: string): Promise<Buffer> {
    const known = keyIdentifiers.get(fingerprint)
    if (known) return known
    const [issuer] = (await issuers.findIssuerChain(fingerprint)) ?? []
    const keyIdentifier = issuer && parseCertificate(issuer).tbs.subjectKeyIdentifier
    if (!keyIdentifier) throw new Error(`the issuer ${fingerprint} of a recorded certificate must be recorded`)
    keyIdentifiers.set(fingerprint, keyIdentifier)
    return keyIdentifier
  }

  async function requireCertificate(certId: string): Promise<RenewableCertificate> {
    const identity = parseCertId(certId)
    if (!identity)
      throw new Problem(
        'malformed',
        'not a certID: base64url of the AKI, a dot, base64url of the serial (RFC 9773 §4.1)',
      )
    const certificate = await store.findBySerial(identity.serialNumber)
    if (!certificate || !identity.keyIdentifier.equals(await keyIdentifierOf(certificate.issuerFingerprint)))
      throw new Problem('malformed', 'the certID names no certificate of this server', { status: 404 })
    return certificate
  }

  return {
    async info(certId, now) {
      const certificate = await requireCertificate(certId)
      const window = renewalWindow(certificate, policy.renewalPercentage, now)
      return {
        window,
        retryAfterSeconds: renewalRetryAfter(window, now, policy.maxRetryAfterSeconds),
        explanationUrl: certificate.advice?.explanationUrl,
      }
    },

    async requirePredecessor(accountId, certId, identifiers) {
      const certificate = await requireCertificate(certId)
      if (certificate.accountId !== accountId)
        throw new Problem('unauthorized', 'the certificate that the order replaces belongs to another account')
      if (!identifiers.some(({ value }) => certificate.names.includes(value)))
        throw new Problem('malformed', 'the order has no identifier in common with the certificate it replaces')
      return certificate
    },
  }
}
