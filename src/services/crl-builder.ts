/**
 * Building certificate revocation lists (RFC 5280 §5): which are due, and from the rows of the database to a published
 * list without ever holding one.
 *
 *   1 draw     the next number, and the list that this one will follow
 *   2 encode   revoked certificates page by page; the DER of each page is stored as a piece
 *   3 frame    header and extensions around the pieces, linted
 *   4 sign     the pieces are read back one by one, to the signer
 *   5 publish  by compare-and-swap on the list drawn at 1
 *
 * A crash at any point leaves pieces that nobody serves and that the next publication deletes. A revocation that is
 * committed while a list is built may be missing in it, and then counts as a change since 1, so another list follows.
 */

import { createHash } from 'node:crypto'
import type { CaBackend, CaIssuer } from '../ca/backend.ts'
import { COMPLETE, crlName } from '../domain/crl-shard.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import { fingerprintSha256, parseCertificate } from '../shared/pki/certificate.ts'
import { lintCrlExtensions, lintCrlHeader } from '../shared/pki/crl-lint.ts'
import { MAX_CRL_NUMBER_LEAD_DAYS } from '../shared/pki/crl-number.ts'
import { type DerFrame, frameCertificateList, frameTbsCertList } from '../shared/pki/tbs-cert-list.ts'
import { parseCrlExtensions, TbsCertListReader } from '../shared/pki/tbs-cert-list-reader.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { CrlDraft, CrlScope, CrlState, CrlStore } from '../store/crl-store.ts'

export interface CrlPolicy {
  /** From one list to the next when nothing happens; undefined: as `scheduledAt` says. */
  intervalMs: number | undefined
  /** From thisUpdate to nextUpdate. */
  lifetimeMs: number
  hash: 'sha256' | 'sha384' | 'sha512'
  /** Parts that new certificates are spread over; 1: none. */
  shards: number
  /** Parts of earlier counts are kept up for so many days after the count was last used. */
  maxValidityDays: number
  /** The CRLDP of the certificates of one part. */
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
}

export interface CrlBuilderParts {
  store: CrlStore
  certificates: Pick<CertificateStore, 'saveIssuer'>
  ca: CaBackend
  /** DER of the entries of a page. */
  encode(job: { rows: string; thisUpdateMs: number }): Promise<Buffer>
  /** When the schedule last said that it is time. */
  scheduledAt(): Date | undefined
  isStopping(): boolean
  events: CrlEvents
}

export interface CrlBuilder {
  /** Builds what is due. @returns how many lists were published. @throws database errors; what fails otherwise is told and tried again */
  round(): Promise<number>
}

/** (m) A page of 4,096 rows makes a piece of 150 to 200 KB, and takes the database 10 ms and the thread 20 ms. */
const PAGE_ROWS = 4096
/** Longer than any revocation can be under way between its time and its commit. */
const COMMIT_MARGIN_MS = 3_600_000
const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 60_000
const SHARDING_NOTE_MS = 3_600_000

/** A list that failed its lint and was not sent to the signer. */
export class MalformedCrl extends Error {
  override readonly name = 'MalformedCrl'
}

/** The service is going down; the pieces are left to the next build. */
class Abandoned extends Error {}

interface Issuer extends CaIssuer {
  issuerKey: Buffer
  /** SHA-256 of all its certificates: a renewed one has the same name and key, and one list covers both. */
  fingerprints: readonly Buffer[]
}

interface Pause {
  until: number
  failures: number
}

export function createCrlBuilder(parts: CrlBuilderParts, policy: CrlPolicy): CrlBuilder {
  const { store, ca, events } = parts
  const pauses = new Map<string, Pause>()
  const savedIssuers = new Set<string>()
  let shardingNotedAt = Number.NEGATIVE_INFINITY

  async function issuers(): Promise<Issuer[]> {
    const current = ca.issuers()
    for (const { certificate, chain } of current) {
      const fingerprint = fingerprintSha256(certificate)
      if (savedIssuers.has(fingerprint)) continue
      await parts.certificates.saveIssuer(Buffer.from(fingerprint, 'hex'), certificate, chain)
      savedIssuers.add(fingerprint)
    }
    const known = (await store.issuerCertificates()).map(({ fingerprint, certificate }) => {
      const { tbs } = parseCertificate(certificate)
      return { fingerprint, key: issuerKeyOf(tbs.subjectDer, tbs.subjectKeyIdentifier ?? Buffer.alloc(0)) }
    })
    const found = new Map<string, Issuer>()
    for (const issuer of current) {
      const issuerKey = issuerKeyOf(issuer.nameDer, issuer.keyIdentifier)
      const fingerprints = known.flatMap(({ fingerprint, key }) => (key.equals(issuerKey) ? [fingerprint] : []))
      const id = issuerKey.toString('hex')
      if (!found.has(id)) found.set(id, { ...issuer, issuerKey, fingerprints })
    }
    return [...found.values()]
  }

  async function partitions(): Promise<{ shards: number; shard: number }[]> {
    if (policy.shards > 1 && performance.now() - shardingNotedAt > SHARDING_NOTE_MS) {
      await store.useShards(policy.shards)
      shardingNotedAt = performance.now()
    }
    const counts = await store.shardings(policy.maxValidityDays)
    return [COMPLETE, ...counts.flatMap((shards) => Array.from({ length: shards }, (_, shard) => ({ shards, shard })))]
  }

  function isDue({ published, missing, isRequested, now }: CrlState): boolean {
    if (!published || missing > 0 || isRequested) return true
    const scheduledAt = parts.scheduledAt()
    if (scheduledAt && published.startedAt < scheduledAt) return true
    const ageMs = now.getTime() - published.thisUpdate.getTime()
    if (policy.intervalMs !== undefined && ageMs >= policy.intervalMs) return true
    // Whatever the schedule says, no list runs out.
    return ageMs >= (published.nextUpdate.getTime() - published.thisUpdate.getTime()) * LIFETIME_SHARE
  }

  async function attempt(issuer: Issuer, scope: CrlScope): Promise<number> {
    const name = crlName(issuer.id, scope)
    const startedAt = performance.now()
    try {
      const built = await build(issuer, scope)
      if (!built) return 0
      const seconds = (performance.now() - startedAt) / 1000
      // At most half of the time goes into lists, however many revocations come.
      pauses.set(name, { until: performance.now() + seconds * 1000, failures: 0 })
      events.built({ ...built, name, seconds })
      return 1
    } catch (error) {
      if (error instanceof Abandoned) return 0
      const failures = (pauses.get(name)?.failures ?? 0) + 1
      const waitMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 10))
      pauses.set(name, { until: performance.now() + waitMs, failures })
      events.failed(name, error)
      await store.noteObstacle(reasonOf(error))
      return 0
    }
  }

  /** @returns undefined when another instance was faster */
  async function build(issuer: Issuer, scope: CrlScope) {
    const draft = await store.begin(scope, issuer.fingerprints, MAX_CRL_NUMBER_LEAD_DAYS * 86_400)
    const { number } = draft
    const thisUpdate = wholeSeconds(latest(draft.startedAt, draft.previousThisUpdate))
    const nextUpdate = new Date(thisUpdate.getTime() + policy.lifetimeMs)
    const encoded = await encodeEntries(issuer, scope, draft, thisUpdate)

    const signatureAlgorithm = algorithmFor(issuer.signatureAlgorithm, policy.hash)
    const isPart = scope.shards > 1
    const frame = frameTbsCertList(
      {
        signatureAlgorithm,
        issuerNameDer: issuer.nameDer,
        authorityKeyIdentifier: issuer.keyIdentifier,
        thisUpdate,
        nextUpdate,
        number,
        distributionPointUrl: isPart ? policy.urlOf(issuer.id, scope.shards, scope.shard) : undefined,
      },
      encoded.length,
    )
    requireLint(frame)
    const stored = storedPieces(issuer.issuerKey, number, encoded.pieces)
    const signature = await ca.signCrl(
      issuer.id,
      { signatureAlgorithm, length: frame.length, pieces: framed(frame, stored) },
      { timeoutMs: policy.signTimeoutMs, requester: `crl ${crlName(issuer.id, scope)}` },
    )
    const outer = frameCertificateList(frame.length, signatureAlgorithm, signature)
    await store.putPiece(issuer.issuerKey, number, 0, Buffer.concat([outer.prefix, frame.prefix]))
    await store.putPiece(issuer.issuerKey, number, encoded.pieces + 1, Buffer.concat([frame.suffix, outer.suffix]))
    const { entries } = encoded
    const crl = { ...scope, issuerId: issuer.id, number, thisUpdate, nextUpdate, entries, bytes: outer.length }
    return (await store.publish(crl, draft, encoded.pieces + 2)) ? crl : undefined
  }

  /** Pieces 1, 2, …: while one page is encoded and stored, the database reads the next. */
  async function encodeEntries(issuer: Issuer, scope: CrlScope, draft: CrlDraft, thisUpdate: Date) {
    const marginMs = COMMIT_MARGIN_MS + (policy.intervalMs ?? policy.lifetimeMs)
    const leftBefore = new Date((draft.previousThisUpdate ?? thisUpdate).getTime() - marginMs)
    let [pieces, entries, length] = [0, 0, 0]
    for (const issuerFingerprint of issuer.fingerprints) {
      const read = (afterId: string | undefined) =>
        settled(store.page({ scope, issuerFingerprint, afterId, leftBefore, limit: PAGE_ROWS }))
      let next = read(undefined)
      for (let page = await unwrap(next); page; page = await unwrap(next)) {
        if (parts.isStopping()) throw new Abandoned()
        next = read(page.lastId)
        const der = await parts.encode({ rows: page.rows, thisUpdateMs: thisUpdate.getTime() })
        pieces += 1
        await store.putPiece(issuer.issuerKey, draft.number, pieces, der)
        entries += page.count
        length += der.length
      }
    }
    return { pieces, entries, length }
  }

  async function* storedPieces(issuerKey: Buffer, number: bigint, count: number): AsyncGenerator<Buffer> {
    for (let piece = 1; piece <= count; piece++) {
      if (parts.isStopping()) throw new Abandoned()
      const der = await store.piece(issuerKey, number, piece)
      if (!der) throw new Error('a piece of the list is gone: another instance has published a later one')
      yield der
    }
  }

  return {
    async round() {
      let published = 0
      const scopes = await partitions()
      for (const issuer of await issuers()) {
        for (const { shards, shard } of scopes) {
          const scope = { issuerKey: issuer.issuerKey, shards, shard }
          if ((pauses.get(crlName(issuer.id, scope))?.until ?? 0) > performance.now()) continue
          if (parts.isStopping()) return published
          if (isDue(await store.state(scope, issuer.fingerprints))) published += await attempt(issuer, scope)
        }
      }
      return published
    },
  }
}

/** Share of its lifetime after which a list is replaced at the latest. */
const LIFETIME_SHARE = 0.75

/** What a relying party tells issuers of CRLs apart by: name and authorityKeyIdentifier. */
export function issuerKeyOf(nameDer: Buffer, keyIdentifier: Buffer): Buffer {
  return createHash('sha256').update(nameDer).update(keyIdentifier).digest()
}

/** The issuer's kind of key with the configured hash; Ed25519 brings its own. */
function algorithmFor(issuerAlgorithm: SignatureAlgorithm, hash: CrlPolicy['hash']): SignatureAlgorithm {
  const { keyKind } = SIGNATURE_ALGORITHMS[issuerAlgorithm]
  const fitting = Object.entries(SIGNATURE_ALGORITHMS).find(
    ([, facts]) => facts.keyKind === keyKind && facts.hash === hash,
  )
  return (fitting?.[0] as SignatureAlgorithm | undefined) ?? issuerAlgorithm
}

/** Entries were linted where they were encoded. @throws MalformedCrl: a fault of this program, which the signer would refuse too */
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
  // Without entries only what follows the header shows that it has ended.
  if (!isHeaderRead) reader.push(suffix)
  if (!isHeaderRead) throw new MalformedCrl('the CRL would not be well-formed: it has no header')
  finding ??= lintCrlExtensions(parseCrlExtensions(suffix))
  if (finding !== undefined) throw new MalformedCrl(`the CRL would not be well-formed: ${finding}`)
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

type Settled<T> = { value: T } | { error: unknown }

/** A promise that is looked at later, and whose rejection must not go unhandled meanwhile. */
function settled<T>(promise: Promise<T>): Promise<Settled<T>> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
}

async function unwrap<T>(promise: Promise<Settled<T>>): Promise<T> {
  const result = await promise
  if ('error' in result) throw result.error
  return result.value
}
