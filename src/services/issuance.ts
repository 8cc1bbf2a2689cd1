/**
 * Issuance (RFC 8555 §7.4): from the CSR of a ready order to a recorded certificate.
 *
 *   1 check   the CSR, against the order and the policies, and CAA where that is long ago; a refusal leaves the order ready
 *   2 build   the TBSCertificate of the order's pinned profile, and lint it
 *   3 begin   order ready → processing and the intent (serial number, TBS), one commit
 *   4 sign    the CA backend signs that TBS; one that failed its lint ends the order instead
 *   5 record  certificate row, order processing → valid, intent gone, one commit; only now may anyone see it
 *
 * Two finalizes race at 3 and one wins. What a crash leaves after 3 is an intent, which recovery signs and records, or
 * fails; what it leaves before 3 is a ready order. A certificate that was signed is therefore always known.
 */

import { type CaBackend, CaError, type CaIssuer, type CaOutage } from '../ca/backend.ts'
import { type CertificateProfile, chooseIssuer, DEFAULT_PROFILE } from '../domain/certificate-profile.ts'
import { type CsrPolicy, checkCsr, commonNameOf } from '../domain/csr-check.ts'
import { checkIdentifiers, type IdentifierPolicy } from '../domain/identifier-policy.ts'
import type { Order } from '../domain/records.ts'
import { certificateValidity, type RequestedValidity, type Validity } from '../domain/validity.ts'
import { oncePerKey } from '../shared/lib/once.ts'
import { within } from '../shared/lib/time-limit.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { fingerprintSha256 } from '../shared/pki/certificate.ts'
import { type Csr, CsrError, parseCsr } from '../shared/pki/csr.ts'
import { keyUsagesFor } from '../shared/pki/extensions.ts'
import { lintTbsCertificate } from '../shared/pki/lint.ts'
import { hashSpki, type Spki } from '../shared/pki/spki.ts'
import { buildTbsCertificate, parseTbsCertificate } from '../shared/pki/tbs-certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem, problemDocument } from '../shared/protocol/problem.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { IssuanceStore } from '../store/issuance-store.ts'
import type { KnownAccount } from './account-cache.ts'
import type { AccountRules } from './account-rules.ts'
import type { RequireFreshCaa } from './caa-freshness.ts'
import type { Quotas } from './quotas.ts'
import type { Recent } from './recent.ts'
import type { SerialNumberSource } from './serial-number.ts'

export interface IssuancePolicy {
  csr: Omit<CsrPolicy, 'keyTypes'>
  identifiers: IdentifierPolicy
  profiles: ReadonlyMap<string, CertificateProfile>
  caIssuersUrls: readonly string[]
  policyOids: readonly string[]
  /** The CRL distribution point of a certificate; undefined: none has one. */
  crlUrl: ((issuerId: string, serialNumber: Buffer) => string) | undefined
  /** How long a finalize reply waits for the certificate before it says `processing`. */
  finalizeWaitMs: number
  /** How long the backend may take before the intent is left to recovery. */
  signTimeoutMs: number
}

/** What issuance tells the rest of the service; none of it may throw or wait. */
export interface IssuanceEvents {
  issued(certificate: {
    id: string
    accountId: string | undefined
    orderId: string | undefined
    serialNumber: string
    names: readonly string[]
  }): void
  /** The backend did not sign; `order` is failed when the refusal is for good, else left to recovery. */
  signingFailed(error: CaError, context: { certificateId: string; orderId: string | undefined }): void
  /** An invariant broke: a TBSCertificate that fails its lint or is refused, a database error between signature and record. */
  alarm(message: string, cause: unknown): void
}

export interface IssuanceDependencies {
  ca: CaBackend
  store: IssuanceStore
  certificates: CertificateStore
  rules: AccountRules
  serialNumber: SerialNumberSource
  instanceId: number
  quotas: Quotas
  /** Absent where CAA is not enforced, and where nothing is finalized. */
  requireFreshCaa?: RequireFreshCaa | undefined
  /** Counts names of which an account has shown control. Absent where nothing is finalized. @throws Problem rateLimited */
  countIdentifiers?: ((identifiers: readonly Identifier[]) => Promise<void> | undefined) | undefined
  /** Where the reads that follow a finalize may be answered from memory. */
  recent?: Recent | undefined
  events: IssuanceEvents
}

/** A certificate on its way; what `complete` and recovery share. */
export interface Issuing extends Validity {
  certificateId: string
  accountId: string | undefined
  orderId: string | undefined
  issuerId: string
  serialNumber: string
  names: readonly string[]
  tbs: Buffer
}

/** `recorded` by this call, or settled by another instance meanwhile. */
export type IssuanceOutcome = 'recorded' | 'failed' | 'left to recovery'

/** `der` only of a certificate that this call has recorded, `error` when the backend did not sign. */
interface Completion {
  outcome: IssuanceOutcome
  der?: Buffer
  error?: CaError
}

export interface Issuance {
  /**
   * @param order owned by the account, as just read or remembered.
   * @returns the order: valid, or processing when the certificate is not there within `finalizeWaitMs`; ready, as just read,
   *   when something that its checks went by has changed meanwhile.
   * @throws Problem orderNotReady, badCSR, malformed (certificateValidity), rejectedIdentifier, caa, dns, compound,
   *   rateLimited, serverInternal 503 when no issuer is reachable; StaleAccountError
   */
  finalize(known: KnownAccount, order: Order, csrDer: Buffer, now: Date, reread: () => Promise<Order>): Promise<Order>
  /** Who would sign a certificate for the service itself with a key of this kind; undefined when no issuer can at the moment. */
  issuerForSelf(kind: Spki['kind'], now: Date): CaIssuer | undefined
  /** A certificate for the service itself, recorded like any other. @returns its DER and its issuer. */
  issueToSelf(names: readonly Identifier[], spki: Spki, now: Date): Promise<{ der: Buffer; issuer: CaIssuer }>
  /** Steps 4 and 5; never throws. */
  complete(issuing: Issuing): Promise<IssuanceOutcome>
  /** Issuances between steps 3 and 5 in this thread. */
  inFlight(): number
}

/** Nothing can be signed for the moment, and the order stays as it is. */
function requireSigning(outage: CaOutage | undefined): void {
  if (!outage) return
  const { reason, retryAfterSeconds } = outage
  throw new Problem('serverInternal', `${reason}; the order stays ready`, { status: 503, retryAfterSeconds })
}

const ISSUER_RETRY_SECONDS = 5
const MALFORMED = 'the certificate would not be well-formed; it was not issued'

/** What a look-up says of the order from now on: CAA checks count, and are told, while it is open. */
export function issuedOrder({ caaCheckedAt: _, ...order }: Order, certificateId: string): Order {
  return { ...order, status: 'valid', certificateId }
}

export function createIssuance(dependencies: IssuanceDependencies, policy: IssuancePolicy): Issuance {
  const { ca, store, certificates, rules, quotas, recent, events, instanceId } = dependencies
  /**
   * Gives the fingerprint, hex. Issuers are few and never change under one: once per thread is enough, or rather for each
   * object that the backend makes of one whenever it connects.
   */
  const saveIssuer = oncePerKey(async ({ certificate, chain }: CaIssuer) => {
    const fingerprint = fingerprintSha256(certificate)
    await certificates.saveIssuer(Buffer.from(fingerprint, 'hex'), certificate, chain)
    return fingerprint
  }, new WeakMap())
  let inFlight = 0

  function profileOf(name: string): CertificateProfile {
    const profile = policy.profiles.get(name)
    // Only an operator can cause it, by removing a profile that open orders are pinned to (draft-ietf-acme-profiles).
    if (!profile)
      throw new Problem('invalidProfile', `this server no longer issues under the profile ${name}; make a new order`)
    return profile
  }

  const issuerOf = ({ issuerIds }: CertificateProfile, kind: Spki['kind'], now: Date) =>
    chooseIssuer(ca.issuers(), issuerIds, kind, now)

  function requireIssuer(profile: CertificateProfile, { kind }: Spki, now: Date): CaIssuer {
    const issuer = issuerOf(profile, kind, now)
    if (issuer) return issuer
    throw new Problem('serverInternal', 'no issuer is available at the moment; try again soon', {
      status: 503,
      retryAfterSeconds: ISSUER_RETRY_SECONDS,
    })
  }

  interface Subject {
    spki: Spki
    identifiers: readonly Identifier[]
    commonName: string | undefined
  }

  async function build(subject: Subject, profile: CertificateProfile, requested: RequestedValidity, now: Date) {
    const issuer = requireIssuer(profile, subject.spki, now)
    const validity = certificateValidity(requested, profile.validity, now, issuer)
    const serialNumber = await dependencies.serialNumber()
    const tbs = buildTbsCertificate({
      serialNumber,
      issuerNameDer: issuer.nameDer,
      authorityKeyIdentifier: issuer.keyIdentifier,
      signatureAlgorithm: issuer.signatureAlgorithm,
      notBefore: validity.notBefore,
      notAfter: validity.notAfter,
      commonName: subject.commonName,
      spki: subject.spki.der,
      dnsNames: valuesOf(subject.identifiers, 'dns'),
      ipAddresses: valuesOf(subject.identifiers, 'ip'),
      keyUsages:
        subject.spki.kind === 'unsupported' ? profile.keyUsages : keyUsagesFor(subject.spki.kind, profile.keyUsages),
      extendedKeyUsages: profile.extendedKeyUsages,
      caIssuersUrls: policy.caIssuersUrls,
      policyOids: policy.policyOids,
      crlDistributionPointUrls: policy.crlUrl ? [policy.crlUrl(issuer.id, serialNumber)] : [],
    })
    return { issuer, serialNumber, tbs, validity, findings: lintTbsCertificate(parseTbsCertificate(tbs)) }
  }

  async function begin(
    built: Awaited<ReturnType<typeof build>>,
    names: readonly string[],
    order: { id: string; requester: KnownAccount['requester']; csrProfileId: string | undefined } | undefined,
    spkiSha256: Buffer,
    now: Date,
  ): Promise<Issuing | undefined> {
    const certificateId = uuidv7(now.getTime())
    const begun = await store.begin({
      certificateId,
      order,
      serialNumber: built.serialNumber,
      issuerId: built.issuer.id,
      issuerFingerprint: Buffer.from(await saveIssuer(built.issuer), 'hex'),
      tbs: built.tbs,
      spkiSha256,
      instanceId,
    })
    if (!begun) return undefined
    return {
      certificateId,
      accountId: order?.requester.accountId,
      orderId: order?.id,
      issuerId: built.issuer.id,
      serialNumber: built.serialNumber.toString('hex'),
      names,
      tbs: built.tbs,
      ...built.validity,
    }
  }

  /** What fails its lint ends its order: no repetition makes the same bytes any better. */
  async function signAndRecord(issuing: Issuing, findings: readonly string[]): Promise<Completion> {
    const { certificateId, orderId } = issuing
    if (findings.length > 0) {
      events.alarm('a TBSCertificate failed its lint and was not signed', findings)
      await store.fail(certificateId, problemDocument('serverInternal', MALFORMED))
      return { outcome: 'failed' }
    }
    let der: Buffer
    try {
      der = await ca.signCertificate(issuing.issuerId, issuing.tbs, {
        timeoutMs: policy.signTimeoutMs,
        requester: orderId ? `order ${orderId}` : 'self',
      })
    } catch (cause) {
      const error = cause instanceof CaError ? cause : new CaError('the CA backend failed', { retryable: true, cause })
      events.signingFailed(error, { certificateId, orderId })
      if (error.retryable) return { outcome: 'left to recovery', error }
      // Both sides lint and check: a refusal means that they disagree, or that this process is not what it was. The names
      // of the service itself were checked by nobody before; they may simply lie outside the signer's policy.
      if (orderId !== undefined) events.alarm('the CA refused for good what this service had built', error)
      await store.fail(certificateId, problemDocument('serverInternal', 'the CA refused to sign this certificate'))
      return { outcome: 'failed', error }
    }
    // False: another instance took this for abandoned. It has recorded its own signature over the same TBS, or has failed
    // the order, which had expired or must not be finished any more.
    const recorded = await store.complete({ ...issuing, der })
    if (recorded) {
      events.issued({
        id: certificateId,
        accountId: issuing.accountId,
        orderId,
        serialNumber: issuing.serialNumber,
        names: issuing.names,
      })
    }
    return recorded ? { outcome: 'recorded', der } : { outcome: 'recorded' }
  }

  async function completeWithDer(issuing: Issuing, findings: readonly string[]): Promise<Completion> {
    inFlight++
    try {
      return await signAndRecord(issuing, findings)
    } catch (error) {
      events.alarm('an issuance was interrupted between signature and record; recovery will finish it', error)
      return { outcome: 'left to recovery' }
    } finally {
      inFlight--
    }
  }

  return {
    async finalize({ key, requester }, order, csrDer, now, reread) {
      requireReady(order)
      requireSigning(ca.outage())
      const csr = readCsr(csrDer)
      const profile = profileOf(order.profile)
      checkCsr(csr, order.identifiers, key.spki(), { ...policy.csr, keyTypes: profile.keyTypes })
      checkIdentifiers(order.identifiers, policy.identifiers, await rules.allowlistOf(order.accountId))
      await rules.checkCsr(csr, order, now)
      // Last of the checks: the only one that can cost queries.
      const caa = dependencies.requireFreshCaa?.(requester, order, now)
      if (caa) await caa

      const subject = { spki: csr.spki, identifiers: order.identifiers, commonName: commonNameOf(csr) }
      const built = await build(subject, profile, order, now)
      // Here, and not when they were ordered: a stranger cannot use up the limit of somebody else's name.
      const counted = order.replaces === undefined && dependencies.countIdentifiers?.(order.identifiers)
      if (counted) await counted
      const names = order.identifiers.map(({ value }) => value)
      const spkiSha256 = hashSpki(csr.spki)
      const stamp = recent?.stampAccount(requester)
      const issuing = await quotas.within('certificates', requester.accountId, () =>
        begin(built, names, { id: order.id, requester, csrProfileId: order.csrProfileId }, spkiSha256, now),
      )
      if (!issuing) {
        if (await certificates.isKeyBlocked(spkiSha256))
          throw new Problem('badCSR', 'the key of the CSR was revoked as compromised')
        const current = await reread()
        // A finalize that lost the race to another one of the same order gets the same order.
        if (current.status === 'pending' || current.status === 'invalid') requireReady(current)
        return current
      }

      const completion = completeWithDer(issuing, built.findings)
      const later: Completion = { outcome: 'left to recovery' }
      const { outcome, der } = await within(completion, policy.finalizeWaitMs, later)
      if (outcome === 'left to recovery') return { ...order, status: 'processing' }
      // Without a certificate in hand somebody else has settled the order, one way or the other.
      if (!der) return reread()
      const valid = issuedOrder(order, issuing.certificateId)
      const issuerFingerprint = await saveIssuer(built.issuer)
      if (stamp) recent?.issued(stamp, valid, { id: issuing.certificateId, der, issuerFingerprint })
      return valid
    },

    issuerForSelf: (kind, now) => issuerOf(profileOf(DEFAULT_PROFILE), kind, now),

    async issueToSelf(identifiers, spki, now) {
      const profile = profileOf(DEFAULT_PROFILE)
      const built = await build({ spki, identifiers, commonName: undefined }, profile, {}, now)
      const names = identifiers.map(({ value }) => value)
      const issuing = await begin(built, names, undefined, hashSpki(spki), now)
      const { der, error } = issuing ? await completeWithDer(issuing, built.findings) : {}
      if (!der) {
        const reason = error ? `: ${error.message}` : ''
        throw new CaError(`the CA did not issue the certificate of the service itself${reason}`, { retryable: true })
      }
      return { der, issuer: built.issuer }
    },

    async complete(issuing) {
      // The intent may come from a process that died between begin and the end of a malformed order.
      return (await completeWithDer(issuing, lintTbsCertificate(parseTbsCertificate(issuing.tbs)))).outcome
    },
    inFlight: () => inFlight,
  }
}

function readCsr(der: Buffer): Csr {
  try {
    return parseCsr(der)
  } catch (error) {
    if (error instanceof CsrError) throw new Problem('badCSR', error.message, { cause: error })
    throw error
  }
}

const NOT_READY_DETAIL = {
  pending: 'not all of its authorizations are valid yet',
  processing: 'it is being issued already',
  valid: 'its certificate has been issued already',
  invalid: 'it is invalid; create a new order',
} as const

function requireReady(order: Order): void {
  if (order.status !== 'ready')
    throw new Problem('orderNotReady', `the order is ${order.status}: ${NOT_READY_DETAIL[order.status]}`)
}

function valuesOf(identifiers: readonly Identifier[], type: Identifier['type']): string[] {
  return identifiers.filter((identifier) => identifier.type === type).map(({ value }) => value)
}
