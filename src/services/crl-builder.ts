/**
 * Builds certificate revocation lists (RFC 5280 §5) that are due, without a whole list in memory.
 *
 *   1 draw     the next number, and the list that this one will follow
 *   2 encode   revoked certificates page by page; the DER of each page is stored as a piece
 *   3 frame    header and extensions around the pieces, linted
 *   4 sign     the signer gets the pieces one by one
 *   5 publish  by compare-and-swap on the list drawn at 1
 *
 * A crash leaves unpublished pieces, which the next publication deletes. A list may miss
 * revocations committed during its build. They count as changes since 1, so another list follows.
 */

import type { CaBackend, CaIssuer } from '../ca/backend.ts'
import { COMPLETE, crlName, issuerKeyOf, issuerKeyOfCertificate, octetsOf } from '../domain/crl-scope.ts'
import { keysOf } from '../shared/lib/encoding.ts'
import { settled, unwrap } from '../shared/lib/time-limit.ts'
import { isWeaker, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import { fingerprintSha256, parseCertificate } from '../shared/pki/certificate.ts'
import { lintCrlExtensions, lintCrlHeader } from '../shared/pki/crl-lint.ts'
import {
  type DerFrame,
  frameCertificateList,
  frameTbsCertList,
  MAX_CRL_NUMBER_LEAD_SECONDS,
} from '../shared/pki/tbs-cert-list.ts'
import { parseCrlExtensions, TbsCertListReader } from '../shared/pki/tbs-cert-list-reader.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { CrlDraft, CrlPage, CrlPart, CrlScope, CrlState, CrlStore } from '../store/crl-store.ts'

export interface CrlPolicy {
  /** Time between two lists without revocations; undefined: `scheduledAt` decides. */
  intervalMs: number | undefined
  /** Time from thisUpdate to nextUpdate. */
  lifetimeMs: number
  /** Used when it is stronger than the issuer's. */
  hash: 'sha256' | 'sha384' | 'sha512' | undefined
  /** Parts for new certificates; 1 is a single list. */
  shards: number
  /** Whether a complete list stands beside the parts. */
  complete: boolean
  /** Parts of an earlier count are built until so many days after its last use. */
  maxValidityDays: number
  /** The CRL distribution point of the certificates of one part. */
  urlOf(issuerId: string, shards: number, shard: number): string
  signTimeoutMs: number
}

export interface CrlBuilt {
  name: string
  issuerId: string
  number: bigint
  entries: number
  bytes: number
  seconds: number
}

export interface CrlEvents {
  built(crl: CrlBuilt): void
  failed(name: string, error: unknown): void
  /** So many certificates stand under two certificates of the issuer, and once on the list; at most once a round. */
  duplicates(name: string, count: number): void
}

export interface CrlBuilderParts {
  store: CrlStore
  certificates: Pick<CertificateStore, 'saveIssuer'>
  ca: CaBackend
  /** Encodes the entries of a page as DER. */
  encode(job: { rows: string; thisUpdateMs: number }): Promise<Buffer>
  /**
   * Whether the database still has all that was compared with the signer. Asked when the entries are read.
   * @throws Error when it has gone back
   */
  requireCompared(): Promise<void>
  /** The newest number that the signer has signed for a list; undefined when that is not known. */
  newestSigned(issuer: Issuer, part: CrlPart): bigint | undefined
  /** The last time the schedule was due. */
  scheduledAt(): Date | undefined
  isStopping(): boolean
  events: CrlEvents
}

/** A piece of 150 to 200 KB, which costs the database 10 ms and the thread 20 ms. */
const PAGE_ROWS = 4096
/** Longer than any time between a revocation's timestamp and its commit. */
const COMMIT_MARGIN_MS = 3_600_000
const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 60_000
const SHARDING_NOTE_MS = 3_600_000

/** A list that failed its lint and was not sent to the signer. */
export class MalformedCrl extends Error {
  override readonly name = 'MalformedCrl'
}

/** The service is stopping; the next publication deletes the pieces. */
class Abandoned extends Error {}

export interface Issuer extends CaIssuer {
  issuerKey: Buffer
  /** SHA-256 of all its certificates: one list covers a renewed one of the same name and key. */
  fingerprints: readonly Buffer[]
}

interface Pause {
  until: number
  failures: number
}

/** A list is replaced after this share of its lifetime, whatever the schedule. */
const LIFETIME_SHARE = 0.75

export class CrlBuilder {
  readonly #parts: CrlBuilderParts
  readonly #store: CrlStore
  readonly #ca: CaBackend
  readonly #events: CrlEvents
  readonly #policy: CrlPolicy
  readonly #pauses = new Map<string, Pause>()
  readonly #savedIssuers = new Set<string>()
  /** Issuers and counts of parts for which lists of other counts were deleted. */
  readonly #retired = new Set<string>()
  #areDuplicatesTold = false
  #shardingNotedAt = Number.NEGATIVE_INFINITY

  constructor(parts: CrlBuilderParts, policy: CrlPolicy) {
    this.#parts = parts
    this.#store = parts.store
    this.#ca = parts.ca
    this.#events = parts.events
    this.#policy = policy
  }

  /**
   * Builds the lists that are due.
   * @returns how many were published
   * @throws database errors; other failures are reported as events and tried again
   */
  async round(): Promise<number> {
    let published = 0
    this.#areDuplicatesTold = false
    const counts = await this.#shardings()
    const parts = partsOf(counts)
    for (const issuer of await this.#issuers()) {
      const { issuerKey, fingerprints } = issuer
      await this.#retire(issuerKey, counts)
      const states = await this.#store.states(issuerKey, parts, fingerprints)
      for (const part of parts.filter(
        (part, at) => this.#isDue(states[at]) || this.#isBelow(issuer, part, states[at]),
      )) {
        if (this.#parts.isStopping()) return published
        if (!this.#isPaused(issuer, part)) published += await this.#attempt(issuer, { issuerKey, ...part })
      }
    }
    return published
  }

  /** Once for each change, because a round is every second. */
  async #retire(issuerKey: Buffer, counts: readonly number[]): Promise<void> {
    const key = `${issuerKey.toString('hex')} ${counts.join()}`
    if (this.#retired.has(key)) return
    await this.#store.retire(issuerKey, counts)
    this.#retired.add(key)
  }

  /**
   * No later list has a certificate that had expired and was revoked before this. It has been on one since (RFC 5280
   * §3.3). Undefined while an issuer or one of its lists is missing.
   */
  async leftBefore(): Promise<Date | undefined> {
    const parts = partsOf(await this.#shardings())
    const updates: number[] = []
    for (const { issuerKey, fingerprints } of await this.#issuers()) {
      const states = await this.#store.states(issuerKey, parts, fingerprints)
      updates.push(...states.map(({ published }) => published?.thisUpdate.getTime() ?? Number.NEGATIVE_INFINITY))
      updates.push(...states.map(({ slowNow }) => slowNow.getTime()))
    }
    const oldest = Math.min(...updates)
    return Number.isFinite(oldest) ? this.#leftBefore(new Date(oldest)) : undefined
  }

  #leftBefore(previousThisUpdate: Date): Date {
    const marginMs = COMMIT_MARGIN_MS + (this.#policy.intervalMs ?? this.#policy.lifetimeMs)
    return new Date(previousThisUpdate.getTime() - marginMs)
  }

  async #issuers(): Promise<Issuer[]> {
    const current = this.#ca.issuers()
    for (const { certificate, chain } of current) {
      const fingerprint = fingerprintSha256(certificate)
      if (this.#savedIssuers.has(fingerprint)) continue
      await this.#parts.certificates.saveIssuer(Buffer.from(fingerprint, 'hex'), certificate, chain)
      this.#savedIssuers.add(fingerprint)
    }
    const known = (await this.#store.issuerCertificates()).map(({ fingerprint, certificate }) => ({
      fingerprint,
      key: issuerKeyOfCertificate(parseCertificate(certificate).tbs),
    }))
    const found = new Map<string, Issuer>()
    for (const issuer of current) {
      const issuerKey = issuerKeyOf(issuer.nameDer, issuer.keyIdentifier)
      const fingerprints = known.flatMap(({ fingerprint, key }) => (key.equals(issuerKey) ? [fingerprint] : []))
      const id = issuerKey.toString('hex')
      if (!found.has(id)) found.set(id, { ...issuer, issuerKey, fingerprints })
    }
    return [...found.values()]
  }

  /** The counts of parts that have lists; 1 is the complete list, which certificates issued before `crl.shards` name. */
  async #shardings(): Promise<number[]> {
    const { shards, complete, maxValidityDays } = this.#policy
    if (performance.now() - this.#shardingNotedAt > SHARDING_NOTE_MS) {
      await this.#store.useShards(shards)
      this.#shardingNotedAt = performance.now()
    }
    const used = await this.#store.shardings(maxValidityDays)
    return complete ? [...new Set([COMPLETE.shards, ...used])] : used
  }

  #isPaused({ id }: Issuer, part: CrlPart): boolean {
    return (this.#pauses.get(crlName(id, part))?.until ?? 0) > performance.now()
  }

  #isDue(state: CrlState | undefined): boolean {
    if (!state) return false
    const { published, missing, isRequested, now } = state
    if (!published || published.isAhead || missing > 0 || isRequested) return true
    const scheduledAt = this.#parts.scheduledAt()
    // One of a clock that was ahead would be due after each list.
    if (scheduledAt && scheduledAt <= now && published.startedAt < scheduledAt) return true
    const ageMs = now.getTime() - published.thisUpdate.getTime()
    if (this.#policy.intervalMs !== undefined && ageMs >= this.#policy.intervalMs) return true
    return ageMs >= (published.nextUpdate.getTime() - published.thisUpdate.getTime()) * LIFETIME_SHARE
  }

  /** A list of a higher number was signed, and is not here: relying parties may have it. */
  #isBelow(issuer: Issuer, part: CrlPart, state: CrlState | undefined): boolean {
    const signed = this.#parts.newestSigned(issuer, part)
    return signed !== undefined && (state?.published?.number ?? signed) < signed
  }

  async #attempt(issuer: Issuer, scope: CrlScope): Promise<number> {
    const name = crlName(issuer.id, scope)
    const startedAt = performance.now()
    try {
      const built = await this.#build(issuer, scope)
      if (!built) return 0
      const seconds = (performance.now() - startedAt) / 1000
      // A pause as long as the build: lists take at most half of the time.
      this.#pauses.set(name, { until: performance.now() + seconds * 1000, failures: 0 })
      this.#events.built({ ...built, name, seconds })
      return 1
    } catch (error) {
      if (error instanceof Abandoned) return 0
      const failures = (this.#pauses.get(name)?.failures ?? 0) + 1
      const waitMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 10))
      this.#pauses.set(name, { until: performance.now() + waitMs, failures })
      this.#events.failed(name, error)
      await this.#store.noteObstacle(reasonOf(error))
      return 0
    }
  }

  /** @returns undefined when another instance has published first */
  async #build(issuer: Issuer, scope: CrlScope) {
    const draft = await this.#store.begin(scope, issuer.fingerprints, MAX_CRL_NUMBER_LEAD_SECONDS)
    const { number } = draft
    const thisUpdate = wholeSeconds(
      draft.isPreviousAhead ? draft.startedAt : latest(draft.startedAt, draft.previousThisUpdate),
    )
    const nextUpdate = new Date(thisUpdate.getTime() + this.#policy.lifetimeMs)
    const encoded = await this.#encodeEntries(issuer, scope, draft, thisUpdate)
    await this.#parts.requireCompared()

    const signatureAlgorithm = algorithmFor(issuer.signatureAlgorithm, this.#policy.hash)
    const isPart = scope.shards > 1
    const frame = frameTbsCertList(
      {
        signatureAlgorithm,
        issuerNameDer: issuer.nameDer,
        authorityKeyIdentifier: issuer.keyIdentifier,
        thisUpdate,
        nextUpdate,
        number,
        distributionPointUrl: isPart ? this.#policy.urlOf(issuer.id, scope.shards, scope.shard) : undefined,
      },
      encoded.length,
    )
    requireLint(frame)
    const stored = this.#storedPieces(issuer.issuerKey, number, encoded.pieces)
    const signature = await this.#ca.signCrl(
      issuer.id,
      { signatureAlgorithm, length: frame.length, pieces: framed(frame, stored) },
      { timeoutMs: this.#policy.signTimeoutMs, requester: `crl ${crlName(issuer.id, scope)}` },
    )
    const outer = frameCertificateList(frame.length, signatureAlgorithm, signature)
    await this.#store.putPiece(issuer.issuerKey, number, 0, Buffer.concat([outer.prefix, frame.prefix]))
    await this.#store.putPiece(
      issuer.issuerKey,
      number,
      encoded.pieces + 1,
      Buffer.concat([frame.suffix, outer.suffix]),
    )
    const { entries } = encoded
    const crl = { ...scope, issuerId: issuer.id, number, thisUpdate, nextUpdate, entries, bytes: outer.length }
    return (await this.#store.publish(crl, draft, encoded.pieces + 2)) ? crl : undefined
  }

  /** Stores pieces 1, 2, …; the database reads the next page while one is encoded. */
  async #encodeEntries(issuer: Issuer, scope: CrlScope, draft: CrlDraft, thisUpdate: Date) {
    const leftBefore = this.#leftBefore(draft.listedUntil)
    const leftOut = await this.#leftOut(issuer, scope, leftBefore)
    let [pieces, entries, length] = [0, 0, 0]
    const runs = issuer.fingerprints.flatMap((issuerFingerprint) =>
      octetsOf(scope).map((octets) => ({ scope, issuerFingerprint, octets, leftBefore, limit: PAGE_ROWS })),
    )
    for (const { issuerFingerprint, ...run } of runs) {
      const read = (after: string | undefined) => settled(this.#store.page({ ...run, issuerFingerprint, after }))
      let next = read(undefined)
      for (let page = await unwrap(next); page; page = await unwrap(next)) {
        if (this.#parts.isStopping()) throw new Abandoned()
        next = read(page.last)
        const { rows, count } = without(page, leftOut.get(issuerFingerprint.toString('hex')))
        if (count === 0) continue
        const der = await this.#parts.encode({ rows, thisUpdateMs: thisUpdate.getTime() })
        pieces += 1
        await this.#store.putPiece(issuer.issuerKey, draft.number, pieces, der)
        entries += count
        length += der.length
      }
    }
    return { pieces, entries, length }
  }

  /** Serial numbers by fingerprint, of rows whose certificate has another one; the signer refuses a list with both. */
  async #leftOut({ id, fingerprints }: Issuer, scope: CrlScope, leftBefore: Date): Promise<Map<string, Set<string>>> {
    const leftOut = new Map<string, Set<string>>()
    if (fingerprints.length < 2) return leftOut
    const duplicates = await this.#store.duplicates(scope, fingerprints, leftBefore)
    for (const { issuerFingerprint, serialNumber } of duplicates) {
      const serialNumbers = leftOut.get(issuerFingerprint) ?? new Set()
      leftOut.set(issuerFingerprint, serialNumbers.add(serialNumber))
    }
    if (duplicates.length > 0 && !this.#areDuplicatesTold) {
      this.#areDuplicatesTold = true
      this.#events.duplicates(crlName(id, scope), duplicates.length)
    }
    return leftOut
  }

  async *#storedPieces(issuerKey: Buffer, number: bigint, count: number): AsyncGenerator<Buffer> {
    for (let piece = 1; piece <= count; piece++) {
      if (this.#parts.isStopping()) throw new Abandoned()
      const der = await this.#store.piece(issuerKey, number, piece)
      if (!der) throw new Error('a piece of the list is gone: another instance has published a later one')
      yield der
    }
  }
}

const partsOf = (counts: readonly number[]): CrlPart[] =>
  counts.flatMap((shards) => Array.from({ length: shards }, (_, shard) => ({ shards, shard })))

/** The issuer's algorithm, or the same with a stronger hash; Ed25519 has its own. */
function algorithmFor(issuerAlgorithm: SignatureAlgorithm, hash: CrlPolicy['hash']): SignatureAlgorithm {
  const { keyKind } = SIGNATURE_ALGORITHMS[issuerAlgorithm]
  const other = keysOf(SIGNATURE_ALGORITHMS).find((name) => {
    const facts = SIGNATURE_ALGORITHMS[name]
    return facts.keyKind === keyKind && facts.hash === hash
  })
  return other === undefined || isWeaker(other, issuerAlgorithm) ? issuerAlgorithm : other
}

/**
 * Entries were linted when they were encoded.
 * @throws MalformedCrl for a bug of this program; the signer would refuse the list too
 */
function requireLint({ prefix, suffix }: DerFrame): void {
  let finding: string | undefined
  let isHeaderRead = false
  const reader = new TbsCertListReader({
    header: (header) => {
      isHeaderRead = true
      finding = lintCrlHeader(header)
    },
    entry: () => {},
  })
  reader.push(prefix)
  // A header without entries ends only where the suffix begins.
  if (!isHeaderRead) reader.push(suffix)
  if (!isHeaderRead) throw new MalformedCrl('the CRL would not be well-formed: it has no header')
  finding ??= lintCrlExtensions(parseCrlExtensions(suffix))
  if (finding !== undefined) throw new MalformedCrl(`the CRL would not be well-formed: ${finding}`)
}

function without({ rows, count }: CrlPage, serialNumbers: ReadonlySet<string> | undefined) {
  if (!serialNumbers) return { rows, count }
  const left = rows.split(' ').filter((row) => !serialNumbers.has(row.slice(0, row.indexOf('.'))))
  return { rows: left.join(' '), count: left.length }
}

async function* framed({ prefix, suffix }: DerFrame, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield prefix
  yield* content
  yield suffix
}

function reasonOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error))
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

const wholeSeconds = (at: Date): Date => new Date(Math.floor(at.getTime() / 1000) * 1000)

function latest(at: Date, other: Date | undefined): Date {
  return other && other > at ? other : at
}
