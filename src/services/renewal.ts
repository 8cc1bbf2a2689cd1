/** Renewal information (RFC 9773): renewal windows, and the certificate an order may replace. */

import { isDueForRenewal, renewalRetryAfter, renewalWindow, type WindowPolicy } from '../domain/renewal-window.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { parseCertId, type RenewalInfo } from '../shared/protocol/renewal-info.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { RenewableCertificate, RenewalStore } from '../store/renewal-store.ts'

export interface RenewalPolicy extends WindowPolicy {
  /** Cap of Retry-After, so that clients notice a revocation long before their window opens. */
  maxRetryAfterSeconds: number
}

export interface Renewal {
  /** @throws Problem malformed, 404 for a certID that names no certificate of this server */
  info(certId: string, now: Date): Promise<RenewalInfo>
  /**
   * The certificate that an order may replace, if no other order replaces it. With `isRenewal` the
   * order is exempt from the limits of new orders (docs/decisions/limits-of-replacements.md).
   * @throws Problem malformed, unauthorized when it is another account's
   */
  requirePredecessor(
    accountId: string,
    certId: string,
    identifiers: readonly Identifier[],
    now: Date,
  ): Promise<{ id: string; isRenewal: boolean }>
}

export function createRenewal(
  store: Pick<RenewalStore, 'findBySerial'>,
  issuers: Pick<CertificateStore, 'findIssuerChain'>,
  policy: RenewalPolicy,
): Renewal {
  /** By issuer fingerprint. Never invalidated, because a fingerprint means one certificate. */
  const keyIdentifiers = new Map<string, Buffer>()

  async function keyIdentifierOf(fingerprint: string): Promise<Buffer> {
    const known = keyIdentifiers.get(fingerprint)
    if (known) return known
    const [issuer] = (await issuers.findIssuerChain(fingerprint)) ?? []
    if (!issuer) throw new Error(`the issuer ${fingerprint} of a recorded certificate must be recorded`)
    // Another CA may have none; then no certID names its certificates.
    const keyIdentifier = parseCertificate(issuer).tbs.subjectKeyIdentifier ?? Buffer.alloc(0)
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
    for (const certificate of await store.findBySerial(identity.serialNumber))
      if (identity.keyIdentifier.equals(await keyIdentifierOf(certificate.issuerFingerprint))) return certificate
    throw new Problem('malformed', 'the certID names no certificate of this server', { status: 404 })
  }

  return {
    async info(certId, now) {
      const certificate = await requireCertificate(certId)
      const window = renewalWindow(certificate, policy, now)
      const secondsUntilWindow = renewalRetryAfter(window, now)
      return {
        window,
        secondsUntilWindow,
        retryAfterSeconds: Math.min(secondsUntilWindow, policy.maxRetryAfterSeconds),
        explanationUrl: explanationUrlOf(certificate),
      }
    },

    async requirePredecessor(accountId, certId, identifiers, now) {
      const certificate = await requireCertificate(certId)
      if (certificate.accountId !== accountId)
        throw new Problem('unauthorized', 'the certificate that the order replaces belongs to another account')
      const isCommon = ({ value }: Identifier) => certificate.names.includes(value)
      if (!identifiers.some(isCommon))
        throw new Problem('malformed', 'the order has no identifier in common with the certificate it replaces')
      const isDue = isDueForRenewal(certificate, policy, now)
      return { id: certificate.id, isRenewal: isDue && !certificate.isReplaced && identifiers.every(isCommon) }
    },
  }
}

/** The page about the window that is shown. */
function explanationUrlOf({ advice, upstream, revokedAt }: RenewableCertificate): string | undefined {
  if (advice || revokedAt) return advice?.explanationUrl
  return upstream?.explanationUrl
}
