/**
 * All methods of the daemon (docs/decisions/three-trust-zones.md). Here are `signCertificate`, and those about the signer
 * itself: `describe`, `health`, `testSign`, and `announceDatabase`, which says who uses it.
 */

import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import type { LinePlace } from '../audit/chain.ts'
import { sha256Hex } from '../audit/line.ts'
import type { Issuer } from '../issuers.ts'
import { auditNames, checkTbsCertificate } from '../policy.ts'
import { ANNOUNCE_MS, type MethodParams, type MethodResult, TEST_MESSAGE } from '../protocol/methods.ts'
import { SignerNameRefusal, SignerRefusal } from '../protocol/signer-errors.ts'
import { certificateRecord } from '../records/record.ts'
import {
  earlierSignature,
  type MethodHandler,
  type MethodHandlers,
  requireIssuer,
  type SigningService,
  signAndRecord,
} from '../signing.ts'
import { recordMethods } from './records.ts'
import { crlMethods } from './sign-crl.ts'

export function createHandlers(
  service: SigningService,
  version: string,
  crls: Parameters<typeof crlMethods>[1],
  warn: Parameters<typeof recordMethods>[2],
): MethodHandlers {
  return {
    describe: describeMethod(version, service),
    health: healthMethod(service),
    signCertificate: signCertificateMethod(service),
    testSign: testSignMethod(service),
    ...crlMethods(service, crls),
    ...recordMethods(service, crls.signed, warn),
    announceDatabase: announceDatabaseMethod(),
  }
}

/** A record of it then fits into a page of `signedCertificates`. 100 names of 253 octets take 26 KiB. */
const MAX_TBS_BYTES = 128 * 1024

/**
 * Signs one TBSCertificate (RFC 5280 §4.1.2) with an issuer key. The daemon never signs an opaque digest: it parses the
 * structure, and refuses everything that a subscriber certificate may not contain.
 */
function signCertificateMethod(service: SigningService): MethodHandler<'signCertificate'> {
  return async ({ issuer: id, requester }, tbs, { deadlineAt }) => {
    const issuer = requireIssuer(service, id)
    if (tbs.length > MAX_TBS_BYTES)
      throw new SignerRefusal(`a TBSCertificate of ${tbs.length} bytes; at most ${MAX_TBS_BYTES} are accepted`)
    const verdict = checkTbsCertificate(tbs, issuer.policy, new Date())
    if ('refusal' in verdict)
      throw verdict.isOfName ? new SignerNameRefusal(verdict.refusal) : new SignerRefusal(verdict.refusal)

    const { serialNumber, names, spki } = verdict
    for (const { id: other, spki: own } of service.issuers.values())
      if (own.equals(spki)) throw new SignerRefusal(`the subject key is that of issuer ${other}`)
    const content = { issuer: id, serial: serialNumber, sha256: sha256Hex(tbs) }
    const earlier = service.serials.find(content)
    const repeated = earlier && (await earlierSignature(earlier, service.records))
    if (repeated) return { meta: {}, payload: repeated }

    const { serial, sha256 } = content
    const record = { method: 'signCertificate' as const, serial, names: auditNames(names), sha256, requester }
    // `signAndRecord` calls this after its rate limit, so that refused requests push no serial
    // number out of `serials`.
    const make = () => {
      service.serials.claim(content)
      return issuer.key.sign(tbs)
    }
    const describe = (place: LinePlace, signature: Buffer) =>
      certificateRecord(place, { issuer: id, serial, requester }, assembleCertificate(tbs, issuer.algorithm, signature))
    const signing = signAndRecord(service, { issuer, make, record, describe, deadlineAt })
    service.serials.begin(content, signing)
    return { meta: {}, payload: (await signing).signature }
  }
}

/**
 * The issuers with their certificates, so that the front needs no copy.
 * @param service its `issuers` change when the configuration is reread
 */
function describeMethod(version: string, service: Pick<SigningService, 'issuers'>): MethodHandler<'describe'> {
  return () => describeIssuers(version, [...service.issuers.values()])
}

function describeIssuers(version: string, all: readonly Issuer[]) {
  return {
    meta: {
      version,
      issuers: all.map(({ id, algorithm, chain, alternateChains }) => ({
        id,
        algorithm,
        chain: lengths(chain),
        // Omitted when empty, because a front of the previous release would reject it.
        ...(alternateChains.length > 0 && { alternates: alternateChains.map(lengths) }),
      })),
    },
    payload: Buffer.concat(all.flatMap(({ chain, alternateChains }) => [...chain, ...alternateChains.flat()])),
  }
}

function lengths(chain: readonly Buffer[]): number[] {
  return chain.map(({ length }) => length)
}

/** Counters, and token states from a question to each session. Only `testSign` shows that a key really signs. */
function healthMethod(service: SigningService): MethodHandler<'health'> {
  const { counters, audit } = service
  return () => {
    for (const { key } of service.issuers.values()) key.ping?.()
    const tokens = tokenStates([...service.issuers.values()])
    return {
      meta: {
        signing: audit.failure === undefined,
        uptimeSeconds: Math.round(performance.now() - counters.startedAt) / 1000,
        signatures: counters.signatures,
        refusals: counters.refusals,
        inFlight: counters.inFlight,
        connections: counters.connections,
        auditSequence: audit.sequence,
        auditSyncs: audit.syncs,
        ...(counters.lastError && { lastError: counters.lastError }),
        // Omitted when empty, because a front of the previous release would reject it.
        ...(tokens.length > 0 && { tokens }),
      },
    }
  }
}

function tokenStates(issuers: readonly Issuer[]): NonNullable<MethodResult<'health'>['tokens']> {
  return issuers.flatMap(({ id, key: { state } }) =>
    state === undefined
      ? []
      : [
          {
            issuer: id,
            status: state.status,
            since: state.since.toISOString(),
            ...(state.status !== 'ready' && { reason: state.reason }),
          },
        ],
  )
}

const TEST_MESSAGE_SHA256 = sha256Hex(TEST_MESSAGE)

/** Makes a real but useless signature, to test key and audit chain. */
function testSignMethod(service: SigningService): MethodHandler<'testSign'> {
  return async ({ issuer: id, requester }, _payload, { deadlineAt }) => {
    const issuer = requireIssuer(service, id)
    const startedAt = performance.now()
    const record = { method: 'testSign' as const, serial: '', names: [], sha256: TEST_MESSAGE_SHA256, requester }
    const make = () => issuer.key.sign(TEST_MESSAGE)
    const { upkeepBucket: bucket } = issuer
    const { signature: payload } = await signAndRecord(service, { issuer, bucket, make, record, deadlineAt })
    return { meta: { durationMs: performance.now() - startedAt }, payload }
  }
}

function announceDatabaseMethod(): MethodHandler<'announceDatabase'> {
  const databases = new AnnouncedDatabases()
  return (params) => ({ meta: databases.announce(params, performance.now()) })
}

/** A database is forgotten after this time without an announcement. */
const REMEMBERED_MS = 60_000
/** A front that was taken over may announce any number. */
const MOST = 16
/** A database that was not announced for this long is not in use, or its service is busy. */
const SILENT_MS = 2 * ANNOUNCE_MS

interface Announced {
  database: string
  incarnation: string
  requester: string
  firstAt: number
  lastAt: number
}

/**
 * The databases that the services of this signer work on. Each service announces its own every ANNOUNCE_MS.
 *
 * Two are in use together when both were announced an interval after the second was first seen. A promoted standby has another
 * incarnation than the database that it replaces, which is announced no more.
 */
export class AnnouncedDatabases {
  #known: Announced[] = []

  /** @param now of a clock that does not jump, in milliseconds */
  announce(params: MethodParams<'announceDatabase'>, now: number): MethodResult<'announceDatabase'> {
    const { database, incarnation, requester, remember } = params
    this.#known = this.#known.filter(({ lastAt }) => now - lastAt < REMEMBERED_MS)
    const isOwn = (one: Announced) => one.database === database && one.incarnation === incarnation
    const rest = this.#known.filter((one) => !isOwn(one))
    const known = this.#known.find(isOwn)
    const seen = { database, incarnation, requester, firstAt: known?.firstAt ?? now, lastAt: now }
    if (remember) this.#known = [...rest, seen].slice(-MOST)
    const own = remember ? seen : known
    const isSilent = ({ lastAt }: Announced) => now - lastAt >= SILENT_MS
    const others = rest.filter((one) => (own ? areTogether(own, one) : !isSilent(one)))
    return {
      others: others.map((one) => ({ database: one.database, incarnation: one.incarnation, requester: one.requester })),
      settled: rest.every((one) => others.includes(one) || isSilent(one)),
    }
  }
}

function areTogether(one: Announced, other: Announced): boolean {
  return Math.min(one.lastAt, other.lastAt) - Math.max(one.firstAt, other.firstAt) >= ANNOUNCE_MS
}
