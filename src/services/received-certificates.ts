/**
 * Checks and records certificates that a backend has issued, as if a stranger had sent them.
 *
 * A certificate that fails the check is not delivered: it raises an alarm, and is to be revoked.
 */

import type { IssuanceStep } from '../ca/csr-backend.ts'
import type { CertificateProfile } from '../domain/certificate-profile.ts'
import {
  type Accepted,
  checkAlternateChain,
  checkReceived,
  type Expected,
  leafOf,
  type ReceivedChain,
} from '../domain/received-certificate.ts'
import { fingerprintSha256, parseCertificate, serialNumberHex } from '../shared/pki/certificate.ts'
import { parseCsr } from '../shared/pki/csr.ts'
import { problemDocument } from '../shared/protocol/problem.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type {
  ClaimedIssuance,
  CsrIssuanceStore,
  ReceivedCertificate,
  RecordOutcome,
} from '../store/csr-issuance-store.ts'
import { type BackendFacts, type CsrOutcome, factsOf } from './csr-step.ts'
import type { IssuanceEvents } from './issuance.ts'
import { recordedAfterAll, untilDone } from './late-record.ts'
import { LAPSE_PROBLEMS } from './recovery.ts'

type MeasuredProfile = Pick<CertificateProfile, 'validity' | 'keyUsages' | 'extendedKeyUsages'>

/** The policy that a backend's certificates are checked against. */
export interface ReceptionPolicy {
  profiles: ReadonlyMap<string, MeasuredProfile>
  /** For an order whose profile has left the configuration. */
  defaultProfile: MeasuredProfile
  policyOids: readonly string[]
  /** By backend. */
  accepted: ReadonlyMap<string, Accepted>
  /** DER, by backend; an empty list accepts any chain that agrees with itself. */
  trustAnchors: ReadonlyMap<string, readonly Buffer[]>
  refusesLint: boolean
}

export interface ReceptionEvents extends Pick<IssuanceEvents, 'issued'> {
  /** The lint has findings in a certificate that is delivered all the same. */
  lintWarnings(findings: readonly string[], facts: BackendFacts): void
  /** The order had been interrupted, and has its certificate. */
  recovered(facts: BackendFacts): void
  /** It came after its order had failed or its key was blocked, so it is recorded as revoked. */
  late(facts: BackendFacts): void
  alarm(message: string, cause: unknown, facts: BackendFacts): void
}

interface ReceivedCertificatesOptions {
  store: Pick<CsrIssuanceStore, 'saveIssuer' | 'record' | 'fail' | 'disown'>
  certificates: Pick<CertificateStore, 'findBySerial'>
  policy: ReceptionPolicy
  instanceId: number
  events: ReceptionEvents
}

export interface ReceivedCertificates {
  /**
   * Waits for a database that is away, since the CA may not give the certificate a second time.
   *
   * @param until end of the row's lease, by `performance.now()`
   * @throws database errors
   */
  take(row: ClaimedIssuance, answer: IssuanceStep & { status: 'issued' }, until: number): Promise<CsrOutcome>
}

const WRONG = problemDocument('serverInternal', 'the CA did not issue the certificate that was asked for')

export function createReceivedCertificates(options: ReceivedCertificatesOptions): ReceivedCertificates {
  const { store, policy, instanceId, events } = options

  async function refuse(
    row: ClaimedIssuance,
    findings: readonly string[],
    until: number,
    unwanted?: Buffer,
  ): Promise<CsrOutcome> {
    events.alarm('what the CA has issued is not what was asked for; it is not delivered', findings, factsOf(row))
    const isHeld = await untilDone(() => store.fail(row.certificateId, instanceId, WRONG, unwanted), until)
    if (!isHeld && unwanted) await untilDone(() => store.disown(row.certificateId, row.backend, unwanted), until)
    return 'failed'
  }

  /** Another instance has taken the row over, and has ended it without this certificate. */
  async function disown(row: ClaimedIssuance, der: Buffer, until: number): Promise<CsrOutcome> {
    if (await untilDone(() => store.disown(row.certificateId, row.backend, der), until))
      events.alarm(
        'a certificate has come for an order that has ended; it is revoked at the CA',
        undefined,
        factsOf(row),
      )
    return 'pending'
  }

  async function record(
    row: ClaimedIssuance,
    { leaf, issuers, warnings }: ReceivedChain,
    alternateChains: readonly (readonly Buffer[])[],
    until: number,
  ): Promise<CsrOutcome> {
    const { certificateId, identifiers } = row
    const { tbs, der } = leaf
    const issuerFingerprint = Buffer.from(fingerprintSha256(issuers[0]), 'hex')
    const issuer = { fingerprint: issuerFingerprint, certificate: issuers[0], chain: issuers, alternateChains }
    await untilDone(() => store.saveIssuer(issuer), until)
    const serialNumber = serialNumberHex(tbs.serialNumber)
    const names = identifiers.map(({ value }) => value)
    const { notBefore, notAfter } = tbs
    const certificate = {
      certificateId,
      issuerFingerprint,
      names,
      notBefore,
      notAfter,
      der,
      serialNumber: Buffer.from(serialNumber, 'hex'),
    }
    const report = (isLate: boolean) => announce(events, { row, isLate }, serialNumber, names, warnings)
    const outcome = await recordReceived(options, certificate, until, report)
    // A revocation would hit the certificate that was delivered first.
    if (outcome === 'duplicate') return refuse(row, [`the serial number ${serialNumber} was given before`], until)
    if (outcome === 'lost') return disown(row, der, until)
    report(outcome === 'late')
    return outcome === 'recorded' ? 'recorded' : 'failed'
  }

  return {
    async take(row, { chain, alternateChains = [] }, until) {
      const expected = expectedFor(row, policy)
      const verdict = checkReceived(chain, expected)
      const first = leafOf(chain, expected.spki) ?? chain[0]
      if (!verdict.ok) return refuse(row, verdict.findings, until, first && isCertificate(first) ? first : undefined)
      const { leaf } = verdict.received
      const alternates = alternateChains.filter((issuers) => checkAlternateChain(leaf.der, issuers, expected))
      return record(row, verdict.received, alternates, until)
    },
  }
}

/** Content that a backend may add after it has left the configuration. */
const NOTHING_MORE: Accepted = { subjectAttributes: ['CN'], keyPurposes: [], extensions: [], policyOids: [] }

type Asked = Pick<ClaimedIssuance, 'csr' | 'identifiers' | 'profile' | 'backend' | 'requested'>

/** The expected content of a certificate for this CSR. */
export function expectedFor(
  { csr, identifiers, profile, backend, requested }: Asked,
  policy: ReceptionPolicy,
): Expected {
  const { validity, keyUsages, extendedKeyUsages } = policy.profiles.get(profile) ?? policy.defaultProfile
  return {
    spki: parseCsr(csr).spki.der,
    identifiers,
    requested,
    maxValidityDays: validity.maxValidityDays,
    keyUsages,
    extendedKeyUsages,
    policyOids: policy.policyOids,
    accepted: policy.accepted.get(backend) ?? NOTHING_MORE,
    trustAnchors: policy.trustAnchors.get(backend) ?? [],
    refusesLint: policy.refusesLint,
    now: new Date(),
  }
}

function announce(
  events: ReceptionEvents,
  { row, isLate }: { row: ClaimedIssuance; isLate: boolean },
  serialNumber: string,
  names: readonly string[],
  warnings: readonly string[],
): void {
  const { certificateId: id, accountId, orderId, wasInterrupted } = row
  const facts = { ...factsOf(row), serialNumber }
  if (warnings.length > 0) events.lintWarnings(warnings, facts)
  events.issued({ id, accountId, orderId, serialNumber, names })
  if (isLate) events.late(facts)
  else if (wasInterrupted) events.recovered(facts)
}

/** Only what can be read can be revoked. */
function isCertificate(der: Buffer): boolean {
  try {
    parseCertificate(der)
    return true
  } catch {
    return false
  }
}

/**
 * @param until end of the row's lease, by `performance.now()`
 * @param onRecordedAfterAll called when the last try has thrown, and has recorded it all the same
 * @throws database errors
 */
async function recordReceived(
  parts: ReceivedCertificatesOptions,
  received: ReceivedCertificate,
  until: number,
  onRecordedAfterAll: (isLate: boolean) => void,
): Promise<RecordOutcome> {
  const { certificates } = parts
  const { serialNumber, der } = received
  try {
    return await recordOnce(parts, received, until)
  } catch (error) {
    // No other place learns of it.
    void recordedAfterAll(certificates, serialNumber, der).then(
      (known) => known && onRecordedAfterAll(known.revokedAt !== undefined),
    )
    throw error
  }
}

/** After a lost answer the row may be gone because this very certificate was recorded. */
async function recordOnce(
  { store, certificates, instanceId }: ReceivedCertificatesOptions,
  received: ReceivedCertificate,
  until: number,
): Promise<RecordOutcome> {
  let isAnswerLost = false
  const outcome = await untilDone(async () => {
    try {
      return await store.record(received, instanceId, LAPSE_PROBLEMS['key blocked'])
    } catch (error) {
      isAnswerLost = true
      throw error
    }
  }, until)
  if (outcome !== 'lost' || !isAnswerLost) return outcome
  const known = await untilDone(() => certificates.findBySerial(received.serialNumber, received.der), until)
  if (known?.id !== received.certificateId) return outcome
  return known.revokedAt === undefined ? 'recorded' : 'late'
}
