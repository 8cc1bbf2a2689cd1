/**
 * Issuance (RFC 8555 §7.4): from a checked request to a recorded certificate.
 *
 *   1 check   the CSR, by order and policies (finalization.ts); a refusal leaves the order ready
 *   2 build   the TBSCertificate of the order's pinned profile, and lint it
 *   3 begin   order ready → processing and the intent (serial number, TBS), one commit
 *   4 sign    the CA backend signs that TBS; a TBS that failed its lint ends the order instead
 *   5 record  certificate row, order processing → valid, intent deleted, one commit; then visible
 *
 * Two finalizes race at 3 and one wins. A crash before 3 leaves a ready order. A crash after 3
 * leaves an intent, which recovery completes or fails, so every signed certificate is known.
 */

import { type CaBackend, CaError, type CaIssuer } from '../ca/backend.ts'
import { renderRequester } from '../ca/signer-records.ts'
import {
  admittedCommonName,
  type CertificateProfile,
  certificateValidity,
  chooseIssuer,
  constraintsOfProfiles,
  contentOf,
  DEFAULT_PROFILE,
  type RequestedValidity,
  type Validity,
} from '../domain/certificate-profile.ts'
import { oncePerKey } from '../shared/lib/caching.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { hashSpki, type Spki } from '../shared/pki/algorithms.ts'
import { fingerprintSha256, parseTbsCertificate } from '../shared/pki/certificate.ts'
import { lintTbsCertificate } from '../shared/pki/lint.ts'
import type { NameConstraints } from '../shared/pki/name-constraints.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem, type ProblemDocument, problemDocument } from '../shared/protocol/problem.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { SignerIntent } from '../store/csr-issuance-store.ts'
import type { IssuanceIntent, IssuanceStore } from '../store/issuance-store.ts'
import { isPassing, recordLate } from './late-record.ts'
import type { SerialNumberSource } from './serial-number.ts'

export interface IssuancePolicy {
  profiles: ReadonlyMap<string, CertificateProfile>
  caIssuersUrls: readonly string[]
  policyOids: readonly string[]
  /** The CRL distribution point of a certificate; undefined when CRLs are off. */
  crlUrl: ((issuerId: string, serialNumber: Buffer) => string) | undefined
  /** How long the backend may take before the intent is left to recovery. */
  signTimeoutMs: number
}

/** Identifies an issuance for operators. The service's own certificate has no account and order. */
export interface OrderFacts {
  certificateId: string
  accountId: string | undefined
  orderId: string | undefined
}

interface IssuanceFacts extends OrderFacts {
  serialNumber: string
}

interface AlarmFacts extends OrderFacts {
  serialNumber?: string
  backend?: string
}

/** Reports of issuance; none of them may throw or wait. */
export interface IssuanceEvents {
  /**
   * Once per certificate. Twice when a lost reply led to a second signature of the same bytes, as
   * RSA and Ed25519 make it.
   */
  issued(certificate: {
    id: string
    accountId: string | undefined
    orderId: string | undefined
    serialNumber: string
    names: readonly string[]
  }): void
  /** The backend did not sign. A final refusal fails the order; other faults go to recovery. */
  signingFailed(error: CaError, facts: IssuanceFacts): void
  /** Failed between intent and record, usually by a database fault; recovery finishes it. */
  interrupted(error: unknown, facts: IssuanceFacts): void
  /** A TBSCertificate fails its lint or is refused, or recovery cannot finish an issuance. */
  alarm(message: string, cause: unknown, facts: AlarmFacts): void
}

export interface IssuanceOptions {
  ca: CaBackend
  store: IssuanceStore
  certificates: CertificateStore
  serialNumber: SerialNumberSource
  instanceId: number
  policy: IssuancePolicy
  events: IssuanceEvents
}

/** A certificate after step 3, for finalize and recovery. */
export interface BegunIssuance extends Validity, IssuanceFacts {
  issuerId: string
  names: readonly string[]
  tbs: Buffer
}

/** `recorded` and `failed` by this call; `ended elsewhere`, where another instance has done either; `pending`: the order is still processing. */
export type IssuanceOutcome = 'recorded' | 'failed' | 'ended elsewhere' | 'pending' | 'left to recovery'

/** `der` is set when `recorded`, `error` if the backend did not sign. */
export interface Completion {
  outcome: IssuanceOutcome
  der?: Buffer
  error?: CaError
}

export interface CertificateSubject {
  spki: Spki
  identifiers: readonly Identifier[]
  commonName: string | undefined
  /** The service's TLS certificate: no CRL URL, as the CRL is served over it (RFC 5280 §8). */
  isOwn?: true
}

export interface BuiltCertificate {
  subject: CertificateSubject
  issuer: CaIssuer
  serialNumber: Buffer
  tbs: Buffer
  validity: Validity
  /** Findings of the lint; a certificate with findings is never signed. */
  findings: readonly string[]
}

/** Ends of an issuance without a certificate. */
interface Ending {
  /** A database fault. */
  onInterrupted(error: unknown): void
  /** The backend has refused for good. */
  onRefused(error: ProblemDocument): Promise<unknown>
  /** The backend has surely not signed, and may be asked again. */
  onUnsigned(): Promise<unknown>
}

const ISSUER_RETRY_SECONDS = 5
const MALFORMED = 'the certificate would not be well-formed; it was not issued'

export class Issuance {
  readonly #options: IssuanceOptions
  /** Saves each issuer once per signer connection. Returns its SHA-256 fingerprint in hex. */
  readonly saveIssuer: (issuer: CaIssuer) => Promise<string>
  #inFlight = 0

  constructor(options: IssuanceOptions) {
    this.#options = options
    const { certificates } = options
    this.saveIssuer = oncePerKey(async ({ certificate, chain }: CaIssuer) => {
      const fingerprint = fingerprintSha256(certificate)
      await certificates.saveIssuer(Buffer.from(fingerprint, 'hex'), certificate, chain)
      return fingerprint
    }, new WeakMap())
  }

  /** @throws Problem serverInternal 503 while nothing can be signed */
  requireSigning(): void {
    const outage = this.#options.ca.outage()
    if (!outage) return
    const { reason, retryAfterSeconds } = outage
    throw new Problem('serverInternal', `${reason}; the order stays ready`, { status: 503, retryAfterSeconds })
  }

  /** @throws Problem invalidProfile when an operator has removed a profile of open orders */
  requireProfile(name: string): CertificateProfile {
    const profile = this.#options.policy.profiles.get(name)
    if (!profile)
      throw new Problem('invalidProfile', `this server no longer issues under the profile ${name}; make a new order`)
    return profile
  }

  /** Name constraints of the issuers that may sign under the profile, or under any when it is undefined. */
  constraintsFor(profile: CertificateProfile | undefined, now: Date): (readonly NameConstraints[])[] {
    const { ca, policy } = this.#options
    return constraintsOfProfiles(ca.issuers(), profile ? [profile] : policy.profiles.values(), now)
  }

  /** Step 2. @throws Problem serverInternal 503 when no issuer is available */
  async build(
    subject: CertificateSubject,
    profile: CertificateProfile,
    requested: RequestedValidity,
    now: Date,
  ): Promise<BuiltCertificate> {
    const { policy } = this.#options
    const issuer = this.#requireIssuer(profile, subject, now)
    const validity = certificateValidity(requested, profile.validity, now, issuer)
    const serialNumber = await this.#options.serialNumber()
    const { caIssuersUrls, policyOids, crlUrl } = policy
    const crlUrls = crlUrl && !subject.isOwn ? [crlUrl(issuer.id, serialNumber)] : []
    const { spki, identifiers } = subject
    const commonName = admittedCommonName(subject.commonName, issuer.constraints)
    const { tbs, findings } = contentOf({
      subject: { spki, identifiers, commonName },
      profile,
      issuer,
      serialNumber,
      validity,
      caIssuersUrls,
      crlUrls,
      policyOids,
    })
    return { subject, issuer, serialNumber, tbs, validity, findings }
  }

  /**
   * Step 3.
   * @param order undefined for the service's own certificate
   * @returns undefined when the order or its rules have changed, or the key is blocked
   */
  async begin(
    built: BuiltCertificate,
    order: IssuanceIntent['order'],
    now: Date,
    isGone?: () => boolean,
  ): Promise<BegunIssuance | undefined> {
    const { subject, issuer, serialNumber, tbs } = built
    const certificateId = uuidv7(now.getTime())
    const begun = await this.#options.store.begin({
      certificateId,
      order,
      serialNumber,
      issuerId: issuer.id,
      issuerFingerprint: Buffer.from(await this.saveIssuer(issuer), 'hex'),
      tbs,
      spkiSha256: hashSpki(subject.spki),
      instanceId: this.#options.instanceId,
      isGone,
    })
    return begun
      ? begunIssuance(built, { certificateId, accountId: order?.requester.accountId, orderId: order?.id })
      : undefined
  }

  /**
   * Step 3 of an order that a backend has begun (csr-issuances.ts).
   * @param give records the intent in place of the backend's row; false when that is gone
   */
  async beginInPlace(
    built: BuiltCertificate,
    facts: Pick<IssuanceFacts, 'certificateId' | 'accountId' | 'orderId'>,
    give: (intent: SignerIntent) => Promise<boolean>,
  ): Promise<BegunIssuance | undefined> {
    const { issuer, serialNumber, tbs } = built
    const issuerFingerprint = Buffer.from(await this.saveIssuer(issuer), 'hex')
    const { certificateId } = facts
    const isGiven = await give({ certificateId, serialNumber, issuerId: issuer.id, issuerFingerprint, tbs })
    return isGiven ? begunIssuance(built, facts) : undefined
  }

  /** Steps 4 and 5; never throws. A fault leaves the issuance to recovery. */
  signAndRecord(issuing: BegunIssuance, findings: readonly string[]): Promise<Completion> {
    const { store, events, instanceId } = this.#options
    return this.#signAndRecord(issuing, findings, {
      onInterrupted: (error) => events.interrupted(error, factsOf(issuing)),
      onRefused: (error) => store.fail(issuing.certificateId, error),
      onUnsigned: () => store.noteUnsigned(issuing.certificateId, instanceId, 'beginner'),
    })
  }

  /**
   * Steps 4 and 5 of an adopted intent; never throws.
   * @param isUnsigned false when it may have been signed before
   */
  recover(issuing: BegunIssuance, isUnsigned: boolean): Promise<Completion> {
    const { store, events, instanceId } = this.#options
    const { certificateId } = issuing
    // The intent may come from a process that ended before it could fail a malformed order.
    const findings = lintTbsCertificate(parseTbsCertificate(issuing.tbs))
    return this.#signAndRecord(issuing, findings, {
      onInterrupted(error) {
        // Any other error than a temporary database fault would recur in every round.
        if (isPassing(error)) events.interrupted(error, factsOf(issuing))
        else events.alarm('an interrupted issuance cannot be finished', error, factsOf(issuing))
      },
      onRefused: (error) =>
        isUnsigned ? store.fail(certificateId, error) : store.abandon(certificateId, error, issuing),
      onUnsigned: async () => isUnsigned && store.noteUnsigned(certificateId, instanceId, 'recovery'),
    })
  }

  /** The issuer of a certificate for the service itself, by the kind of its key. */
  issuerForSelf(kind: Spki['kind'], now: Date): CaIssuer | undefined {
    return this.#issuerOf(this.requireProfile(DEFAULT_PROFILE), kind, now)
  }

  /** Issues a certificate for the service itself, recorded like any other. */
  async issueToSelf(
    identifiers: readonly Identifier[],
    spki: Spki,
    now: Date,
  ): Promise<{ der: Buffer; issuer: CaIssuer }> {
    const profile = this.requireProfile(DEFAULT_PROFILE)
    const built = await this.build({ spki, identifiers, commonName: undefined, isOwn: true }, profile, {}, now)
    const issuing = await this.begin(built, undefined, now)
    const { der, error } = issuing ? await this.signAndRecord(issuing, built.findings) : {}
    if (!der) {
      const reason = error ? `: ${error.message}` : ''
      throw new CaError(`the CA did not issue the certificate of the service itself${reason}`, { retryable: true })
    }
    return { der, issuer: built.issuer }
  }

  /** Issuances between steps 3 and 5 in this thread. */
  inFlight(): number {
    return this.#inFlight
  }

  #issuerOf(
    { issuerIds }: CertificateProfile,
    kind: Spki['kind'],
    now: Date,
    identifiers: readonly Identifier[] = [],
  ): CaIssuer | undefined {
    return chooseIssuer(this.#options.ca.issuers(), issuerIds, kind, now, identifiers)
  }

  #requireIssuer(profile: CertificateProfile, { spki, identifiers }: CertificateSubject, now: Date): CaIssuer {
    const issuer = this.#issuerOf(profile, spki.kind, now, identifiers)
    if (issuer) return issuer
    throw new Problem('serverInternal', 'no issuer is available at the moment; try again soon', {
      status: 503,
      retryAfterSeconds: ISSUER_RETRY_SECONDS,
    })
  }

  async #signAndRecord(issuing: BegunIssuance, findings: readonly string[], ending: Ending): Promise<Completion> {
    this.#inFlight++
    try {
      const recordUntil = performance.now() + this.#options.policy.signTimeoutMs
      if (findings.length > 0) return await this.#failMalformed(issuing, findings)
      const signed = await this.#sign(issuing, ending)
      return 'outcome' in signed ? signed : await this.#record(issuing, signed, recordUntil)
    } catch (error) {
      ending.onInterrupted(error)
      return { outcome: 'left to recovery' }
    } finally {
      this.#inFlight--
    }
  }

  /** A retry would build the same bytes, so the order ends. */
  async #failMalformed(issuing: BegunIssuance, findings: readonly string[]): Promise<Completion> {
    const { store, events } = this.#options
    events.alarm('a TBSCertificate failed its lint and was not signed', findings, factsOf(issuing))
    await store.fail(issuing.certificateId, problemDocument('serverInternal', MALFORMED))
    return { outcome: 'failed' }
  }

  /** Step 4. @returns the certificate's DER, or the outcome without one */
  async #sign(issuing: BegunIssuance, { onRefused, onUnsigned }: Ending): Promise<Buffer | Completion> {
    const { ca, policy, events } = this.#options
    const { issuerId, tbs } = issuing
    try {
      const requester = renderRequester(issuing)
      return await ca.signCertificate(issuerId, tbs, { timeoutMs: policy.signTimeoutMs, requester })
    } catch (cause) {
      const error = cause instanceof CaError ? cause : unknownFailure(cause)
      events.signingFailed(error, factsOf(issuing))
      // Without this note recovery takes it for signed.
      if (error.retryable && !error.mayHaveIssued) await onUnsigned().catch(() => undefined)
      if (error.retryable) return { outcome: 'left to recovery', error }
      await onRefused(this.#refusalDocument(error, issuing))
      return { outcome: 'failed', error }
    }
  }

  /** The error of an order that the backend has refused for good. */
  #refusalDocument(error: CaError, issuing: BegunIssuance): ProblemDocument {
    const { nameRefusal } = error
    // No alarm: the signer's policy may be narrower, so any client can cause this refusal.
    if (nameRefusal !== undefined)
      return problemDocument('rejectedIdentifier', `this CA does not certify a name of the order: ${nameRefusal}`)
    // Both sides lint and check, so a refusal means a bug or a compromised process.
    // The service's own names were not checked and may lie outside the signer's policy.
    if (issuing.orderId !== undefined)
      this.#options.events.alarm('the CA refused for good what this service had built', error, factsOf(issuing))
    return problemDocument('serverInternal', 'the CA refused to sign this certificate')
  }

  /** Step 5. */
  async #record(issuing: BegunIssuance, der: Buffer, recordUntil: number): Promise<Completion> {
    const { store, certificates } = this.#options
    const issued = { ...issuing, der }
    const isRecorded = await store.complete(issued).catch((error) => {
      void recordLate(store, certificates, issued, recordUntil).then((done) => done && this.#announce(issuing))
      throw error
    })
    if (!isRecorded) return { outcome: 'ended elsewhere' }
    this.#announce(issuing)
    return { outcome: 'recorded', der }
  }

  #announce({ certificateId: id, accountId, orderId, serialNumber, names }: BegunIssuance): void {
    this.#options.events.issued({ id, accountId, orderId, serialNumber, names })
  }
}

function begunIssuance(
  { subject, issuer, serialNumber, tbs, validity }: BuiltCertificate,
  { certificateId, accountId, orderId }: Pick<IssuanceFacts, 'certificateId' | 'accountId' | 'orderId'>,
): BegunIssuance {
  return {
    certificateId,
    accountId,
    orderId,
    issuerId: issuer.id,
    serialNumber: serialNumber.toString('hex'),
    names: subject.identifiers.map(({ value }) => value),
    tbs,
    ...validity,
  }
}

const unknownFailure = (cause: unknown) =>
  new CaError('the CA backend failed', { retryable: true, mayHaveIssued: true, cause })

function factsOf({ certificateId, accountId, orderId, serialNumber }: BegunIssuance): IssuanceFacts {
  return { certificateId, accountId, orderId, serialNumber }
}
