/**
 * Finalize with a backend that issues from a CSR: which one is asked, and the row that begins it. The
 * supervisor takes the steps (csr-issuances.ts).
 */

import { type CertificateProfile, certificateValidity, type Validity } from '../domain/certificate-profile.ts'
import { isSigner } from '../domain/csr-issuance.ts'
import type { Order } from '../domain/records.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { hashSpki, type Spki } from '../shared/pki/algorithms.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { CsrIssuanceStore } from '../store/csr-issuance-store.ts'
import type { RulesSeen } from '../store/issuance-store.ts'
import type { CsrOutcome } from './csr-step.ts'
import type { BegunIssuance, Completion } from './issuance.ts'

export interface CsrFinalizationOptions {
  store: Pick<CsrIssuanceStore, 'begin' | 'takeFromSigner'>
  /** Whether the signer is reachable and its circuit breaker closed. */
  isSignerUsable(): boolean
  /** Whether the operator has stopped signing. */
  isStopped(): boolean
  /** How long a backend is left alone; 0 when it may be asked now. */
  secondsAway(backend: string): number
  /** Takes the steps; `pending` when they take longer than finalize waits. */
  issue(certificateId: string): Promise<CsrOutcome>
  instanceId: number
}

interface CsrOrder {
  order: Order
  requester: Requester
  seen: RulesSeen
  profile: CertificateProfile
  /** DER */
  csr: Buffer
  spki: Spki
  now: Date
}

const STOPPED_RETRY_SECONDS = 60

const unavailable = (reason: string, retryAfterSeconds: number) =>
  new Problem('serverInternal', `${reason}; the order stays ready`, { status: 503, retryAfterSeconds })
/** The backend's own issuer decides. */
const ANY_TIME: Validity = { notBefore: new Date(0), notAfter: new Date(8.64e15) }

export class CsrFinalization {
  readonly #options: CsrFinalizationOptions

  constructor(options: CsrFinalizationOptions) {
    this.#options = options
  }

  /** @returns the backend to begin with; undefined when the signer signs */
  backendFor({ backends }: CertificateProfile): string | undefined {
    const [first] = backends
    if (first === undefined || (isSigner(first) && this.#options.isSignerUsable())) return undefined
    return backends.find((name) => !isSigner(name))
  }

  /** @throws Problem serverInternal 503 while the operator has stopped signing, or every backend is left alone */
  requireAvailable({ backends }: Pick<CertificateProfile, 'backends'>): void {
    const { isStopped, isSignerUsable, secondsAway } = this.#options
    if (isStopped()) throw unavailable('signing has been stopped by the operator', STOPPED_RETRY_SECONDS)
    if (backends.some(isSigner) && isSignerUsable()) return
    const seconds = Math.min(...backends.filter((name) => !isSigner(name)).map(secondsAway))
    if (seconds > 0) throw unavailable('the CA is not available', seconds)
  }

  /** @returns the certificate's id; undefined when the order or its rules have changed, or the key is blocked */
  async begin(
    { order, requester, seen, profile, csr, spki, now }: CsrOrder,
    backend: string,
  ): Promise<string | undefined> {
    const certificateId = uuidv7(now.getTime())
    const isBegun = await this.#options.store.begin({
      certificateId,
      csr,
      backend,
      instanceId: this.#options.instanceId,
      order: { id: order.id, requester, ...seen },
      spkiSha256: hashSpki(spki),
      ...certificateValidity(order, profile.validity, now, ANY_TIME),
    })
    return isBegun ? certificateId : undefined
  }

  issue(certificateId: string): Promise<CsrOutcome> {
    return this.#options.issue(certificateId)
  }

  /**
   * Where the signer has surely not signed, the next backend takes over.
   * @returns what became of it; `completion` itself when nothing is to be taken over
   */
  async takeOver(
    completion: Completion,
    { certificateId, notBefore, notAfter }: BegunIssuance,
    { backends }: CertificateProfile,
    csr: Buffer,
  ): Promise<Completion> {
    const { outcome, error } = completion
    const backend = backends.slice(1 + backends.findIndex(isSigner)).find((name) => !isSigner(name))
    if (outcome !== 'left to recovery' || !error?.retryable || error.mayHaveIssued || backend === undefined)
      return completion
    const { store, instanceId } = this.#options
    const isTaken = await store.takeFromSigner({ certificateId, csr, notBefore, notAfter, backend, instanceId })
    if (!isTaken) return completion
    const ended = await this.issue(certificateId)
    return { outcome: ended }
  }
}
