/**
 * Renewal information (RFC 9773): renewal windows, the certificate an order may replace, and the windows that the CA
 * behind this service suggests.
 */

import type { GuardedCsrBackend } from '../ca/guarded-backend.ts'
import { isDueForRenewal, renewalRetryAfter, renewalWindow, type WindowPolicy } from '../domain/renewal-window.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { parseCertId, type RenewalInfo } from '../shared/protocol/renewal-info.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { DueRenewal, RenewableCertificate, RenewalStore, UpstreamRenewalStore } from '../store/renewal-store.ts'

export interface RenewalPolicy extends WindowPolicy {
  /** Cap of Retry-After, so that clients notice a revocation long before their window opens. */
  maxRetryAfterSeconds: number
}

export interface Renewal {
  /** @throws Problem malformed, 404 for a certID that names no certificate of this server */
  info(certId: string, now: Date): Promise<RenewalInfo>
  /**
   * The certificate that an order may replace, if no other order replaces it; undefined where it was imported without
   * an account. With `isRenewal` the order is exempt from the limits of new orders
   * (docs/decisions/limits-of-replacements.md).
   * @throws Problem malformed
   */
  requirePredecessor(
    accountId: string,
    certId: string,
    identifiers: readonly Identifier[],
    now: Date,
  ): Promise<{ id: string; isRenewal: boolean } | undefined>
}

type Refuse = (detail: string, status: number) => Problem

const refused: Refuse = (detail, status) => new Problem('malformed', detail, { status })

/** acme.sh and cert-manager know by type and words that they may order again without it, Posh-ACME by 404 and 409. */
export const replacesRefused: Refuse = (detail, status) =>
  new Problem(status === 409 ? 'alreadyReplaced' : 'malformed', `could not validate ARI 'replaces' field: ${detail}`, {
    status,
  })

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

  async function requireCertificate(certId: string, refuse: Refuse): Promise<RenewableCertificate> {
    const identity = parseCertId(certId)
    if (!identity)
      throw refuse('not a certID: base64url of the AKI, a dot, base64url of the serial (RFC 9773 §4.1)', 400)
    for (const certificate of await store.findBySerial(identity.serialNumber))
      if (identity.keyIdentifier.equals(await keyIdentifierOf(certificate.issuerFingerprint))) return certificate
    throw refuse('the certID names no certificate of this server, or one that expired long ago', 404)
  }

  return {
    async info(certId, now) {
      const certificate = await requireCertificate(certId, refused)
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
      const certificate = await requireCertificate(certId, replacesRefused)
      if (certificate.accountId === undefined) return undefined
      if (certificate.accountId !== accountId) throw replacesRefused('the certificate belongs to another account', 404)
      const isCommon = ({ value }: Identifier) => certificate.names.includes(value)
      if (!identifiers.some(isCommon))
        throw replacesRefused('the certificate has no identifier in common with the order', 404)
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

export interface UpstreamRenewalsOptions {
  backends: ReadonlyMap<string, Pick<GuardedCsrBackend, 'renewalInfo' | 'retryAfterMs'>>
  store: UpstreamRenewalStore
  /** Aborts when the service ends: what is under way is asked again later. */
  signal: AbortSignal
  onFailed(error: Error, renewal: DueRenewal): void
}

/** Asked at the same time, and in one round. */
const BATCH = 16
/** After a failure, or when this process ends while asking. */
const RETRY_SECONDS = 1800
/** Where the CA suggests nothing for this one. */
const SILENT_SECONDS = 86_400

/** One round of a backend. @returns how many certificates were asked for */
export async function askUpstreamRenewals(name: string, options: UpstreamRenewalsOptions): Promise<number> {
  const backend = options.backends.get(name)
  if (!backend || backend.retryAfterMs() > 0) return 0
  const due = await options.store.claimDue(name, BATCH, RETRY_SECONDS)
  await Promise.all(due.map((renewal) => ask(renewal, backend.renewalInfo, options)))
  return due.length
}

async function ask(
  renewal: DueRenewal,
  renewalInfo: GuardedCsrBackend['renewalInfo'],
  { store, signal, onFailed }: UpstreamRenewalsOptions,
): Promise<void> {
  const { certificateId, der } = renewal
  if (!renewalInfo) return store.drop(certificateId)
  try {
    const answer = await renewalInfo(der, signal)
    if (!answer) return await store.save(certificateId, undefined, SILENT_SECONDS)
    const { start, end, explanationUrl, retryAfterMs } = answer
    await store.save(certificateId, { window: { start, end }, explanationUrl }, retryAfterMs / 1000)
  } catch (error) {
    if (!signal.aborted) onFailed(error as Error, renewal)
  }
}
