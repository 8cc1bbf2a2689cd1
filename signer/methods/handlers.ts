/**
 * The methods of the daemon (docs/decisions/three-trust-zones.md). `methods/records.ts` has those that give out what was signed.
 *
 * - `signCertificate` signs a TBSCertificate.
 * - `beginCrl`, `appendCrl` and `signCrl` sign a TBSCertList (RFC 5280 §5.1.2), piece by piece. The number is on disk before
 *   the key is used. Audit line, record, and the number that was signed are there before the signature leaves.
 * - `describe`, `health` and `testSign` are about the signer itself, and `announceDatabase` says who uses it.
 */

import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import type { LinePlace } from '../audit/chain.ts'
import { sha256Hex } from '../audit/line.ts'
import type { CrlNumbers, SignedCrls } from '../crl-numbers.ts'
import type { CrlUpload, CrlUploads } from '../crl-uploads.ts'
import { type Issuer, issuerKeyOf } from '../issuers.ts'
import { auditNames, checkTbsCertificate } from '../policy.ts'
import { ANNOUNCE_MS, type MethodParams, type MethodResult, TEST_MESSAGE } from '../protocol/methods.ts'
import { SignerNameRefusal, SignerRefusal } from '../protocol/signer-errors.ts'
import { certificateRecord, revocationRecord } from '../records/record.ts'
import {
  earlierSignature,
  type MethodHandler,
  type MethodHandlers,
  noteEntries,
  requireIssuer,
  type SigningService,
  signAndRecord,
} from '../signing.ts'
import { recordMethods } from './records.ts'

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
    // `signAndRecord` calls this after its rate limit, so that refused requests push no serial number out of `serials`.
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

type CrlMethods = Pick<MethodHandlers, 'beginCrl' | 'appendCrl' | 'signCrl'>

/**
 * Entries in the record of one line: formatting them takes 4 ms, for which nothing else is signed. The
 * first list after a start has more. They are recorded while it comes in, in lines of their own.
 */
const MOST_ADDED = 5000

interface CrlState {
  numbers: CrlNumbers
  signed: SignedCrls
  uploads: CrlUploads
}

function crlMethods(service: SigningService, { numbers, signed, uploads }: CrlState): CrlMethods {
  async function sign(upload: CrlUpload, deadlineAt: number): Promise<Buffer> {
    const { issuer, requester } = upload
    const key = issuerKeyOf(issuer)
    const { facts, sha256, sign: make } = upload.finish()
    await numbers.take(issuer.policy.issuer.keyIdentifier, facts.number)
    const number = facts.number.toString(16)
    const record = {
      method: 'signCrl' as const,
      serial: number,
      names: [`entries:${facts.entries}`, ...facts.urls.map((url) => `url:${url}`)],
      sha256,
      requester,
    }
    const list = { number, url: facts.urls[0] ?? '' }
    const describe = (place: LinePlace) => revocationRecord(place, { issuer: issuer.id, key, list }, facts.added)
    const { upkeepBucket: bucket } = issuer
    const { signature } = await signAndRecord(service, { issuer, bucket, make, record, describe, deadlineAt })
    service.recorded.add(key, facts.added)
    await signed.note(key, facts.urls, facts.number)
    return signature
  }

  /** A failed upload cannot continue: its number may be used up, so the client begins again. */
  async function forgettingFailed<T>(id: string, work: () => T | Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      uploads.forget(id)
      throw error
    }
  }

  return {
    beginCrl({ issuer, requester, bytes }, _payload, { connection }) {
      return { meta: { upload: uploads.begin(requireIssuer(service, issuer), requester, bytes, connection) } }
    },
    async appendCrl({ upload: id, offset }, piece) {
      const upload = uploads.require(id)
      const received = await forgettingFailed(id, async () => {
        const octets = upload.append(offset, piece)
        const added = upload.takeAdded(MOST_ADDED)
        if (added.length > 0) await noteEntries(service, upload, added)
        return octets
      })
      return { meta: { received } }
    },
    async signCrl({ upload: id }, _payload, { deadlineAt }) {
      const upload = uploads.require(id)
      upload.signature ??= sign(upload, deadlineAt)
      const { signature } = upload
      const payload = await forgettingFailed(id, () => signature)
      uploads.answer(id)
      return { meta: {}, payload }
    },
  }
}
