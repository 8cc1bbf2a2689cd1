/**
 * Builds one certificate revocation list (RFC 5280 §5), without the whole list in memory.
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

import type { CaBackend, CaIssuer } from '../../ca/backend.ts'
import { crlName, octetsOf } from '../../domain/crl-scope.ts'
import { keysOf } from '../../shared/lib/encoding.ts'
import { settled, unwrap } from '../../shared/lib/time-limit.ts'
import { isWeaker, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../../shared/pki/algorithms.ts'
import { lintCrlExtensions, lintCrlHeader } from '../../shared/pki/crl-lint.ts'
import {
  type DerFrame,
  frameCertificateList,
  frameTbsCertList,
  MAX_CRL_NUMBER_LEAD_SECONDS,
} from '../../shared/pki/tbs-cert-list.ts'
import { parseCrlExtensions, TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'
import type { CrlDraft, CrlPage, CrlScope, CrlStore, NewCrl } from '../../store/crl-store.ts'

/** The content of a list. */
export interface ListPolicy {
  /** Time between two lists without revocations; undefined where a schedule decides. */
  intervalMs: number | undefined
  /** Time from thisUpdate to nextUpdate. */
  lifetimeMs: number
  /** Used when it is stronger than the issuer's. */
  hash: 'sha256' | 'sha384' | 'sha512' | undefined
  /** The CRL distribution point of the certificates of one part. */
  urlOf(issuerId: string, shards: number, shard: number): string
  signTimeoutMs: number
}

export interface ListParts {
  store: CrlStore
  ca: Pick<CaBackend, 'signCrl'>
  /** Encodes the entries of a page as DER. */
  encode(job: { rows: string; thisUpdateMs: number }): Promise<Buffer>
  /**
   * Whether the database still has all that was compared with the signer. Asked when the entries are read.
   * @throws Error when it has gone back
   */
  requireCompared(): Promise<void>
  /** So many certificates stand under two certificates of the issuer, and once on the list. */
  onDuplicates(name: string, count: number): void
  isStopping(): boolean
}

export interface Issuer extends CaIssuer {
  issuerKey: Buffer
  /** SHA-256 of all its certificates: one list covers a renewed one of the same name and key. */
  fingerprints: readonly Buffer[]
}

/** A piece of 150 to 200 KB, which costs the database 10 ms and the thread 20 ms. */
const PAGE_ROWS = 4096
/** Longer than any time between a revocation's timestamp and its commit. */
const COMMIT_MARGIN_MS = 3_600_000

/** A list that failed its lint and was not sent to the signer. */
export class MalformedCrl extends Error {
  override readonly name = 'MalformedCrl'
}

/** The service is stopping; the next publication deletes the pieces. */
export class Abandoned extends Error {}

/**
 * A certificate that had expired and was revoked before this has left the list (RFC 5280 §3.3): a list of `thisUpdate` has had it.
 */
export function leftListBefore(thisUpdate: Date, { intervalMs, lifetimeMs }: ListPolicy): Date {
  return new Date(thisUpdate.getTime() - COMMIT_MARGIN_MS - (intervalMs ?? lifetimeMs))
}

export class CrlBuild {
  readonly #parts: ListParts
  readonly #policy: ListPolicy
  readonly #issuer: Issuer
  readonly #scope: CrlScope

  constructor(parts: ListParts, policy: ListPolicy, issuer: Issuer, scope: CrlScope) {
    this.#parts = parts
    this.#policy = policy
    this.#issuer = issuer
    this.#scope = scope
  }

  /** @returns undefined when another instance has published first */
  async run(): Promise<NewCrl | undefined> {
    const { store, ca } = this.#parts
    const [issuer, scope, policy] = [this.#issuer, this.#scope, this.#policy]
    const draft = await store.begin(scope, issuer.fingerprints, MAX_CRL_NUMBER_LEAD_SECONDS)
    const { number } = draft
    const thisUpdate = wholeSeconds(
      draft.isPreviousAhead ? draft.startedAt : latest(draft.startedAt, draft.previousThisUpdate),
    )
    const nextUpdate = new Date(thisUpdate.getTime() + policy.lifetimeMs)
    const encoded = await this.#encodeEntries(draft, thisUpdate)
    await this.#parts.requireCompared()

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
    const stored = this.#storedPieces(number, encoded.pieces)
    const signature = await ca.signCrl(
      issuer.id,
      { signatureAlgorithm, length: frame.length, pieces: framed(frame, stored) },
      { timeoutMs: policy.signTimeoutMs, requester: `crl ${crlName(issuer.id, scope)}` },
    )
    const outer = frameCertificateList(frame.length, signatureAlgorithm, signature)
    const put = (piece: number, ...bytes: Buffer[]) =>
      store.putPiece(issuer.issuerKey, number, piece, Buffer.concat(bytes))
    await put(0, outer.prefix, frame.prefix)
    await put(encoded.pieces + 1, frame.suffix, outer.suffix)
    const { entries } = encoded
    const crl = { ...scope, issuerId: issuer.id, number, thisUpdate, nextUpdate, entries, bytes: outer.length }
    return (await store.publish(crl, draft, encoded.pieces + 2)) ? crl : undefined
  }

  /** Stores pieces 1, 2, …; the database reads the next page while one is encoded. */
  async #encodeEntries(draft: CrlDraft, thisUpdate: Date) {
    const { store } = this.#parts
    const [issuer, scope] = [this.#issuer, this.#scope]
    const leftBefore = leftListBefore(draft.listedUntil, this.#policy)
    const leftOut = await this.#leftOut(leftBefore)
    let [pieces, entries, length] = [0, 0, 0]
    const runs = issuer.fingerprints.flatMap((issuerFingerprint) =>
      octetsOf(scope).map((octets) => ({ scope, issuerFingerprint, octets, leftBefore, limit: PAGE_ROWS })),
    )
    for (const { issuerFingerprint, ...run } of runs) {
      const read = (after: string | undefined) => settled(store.page({ ...run, issuerFingerprint, after }))
      let next = read(undefined)
      for (let page = await unwrap(next); page; page = await unwrap(next)) {
        if (this.#parts.isStopping()) throw new Abandoned()
        next = read(page.last)
        const { rows, count } = without(page, leftOut.get(issuerFingerprint.toString('hex')))
        if (count === 0) continue
        const der = await this.#parts.encode({ rows, thisUpdateMs: thisUpdate.getTime() })
        pieces += 1
        await store.putPiece(issuer.issuerKey, draft.number, pieces, der)
        entries += count
        length += der.length
      }
    }
    return { pieces, entries, length }
  }

  /** Serial numbers by fingerprint, of rows whose certificate has another one; the signer refuses a list with both. */
  async #leftOut(leftBefore: Date): Promise<Map<string, Set<string>>> {
    const { id, fingerprints } = this.#issuer
    const leftOut = new Map<string, Set<string>>()
    if (fingerprints.length < 2) return leftOut
    const duplicates = await this.#parts.store.duplicates(this.#scope, fingerprints, leftBefore)
    for (const { issuerFingerprint, serialNumber } of duplicates) {
      const serialNumbers = leftOut.get(issuerFingerprint) ?? new Set()
      leftOut.set(issuerFingerprint, serialNumbers.add(serialNumber))
    }
    if (duplicates.length > 0) this.#parts.onDuplicates(crlName(id, this.#scope), duplicates.length)
    return leftOut
  }

  async *#storedPieces(number: bigint, count: number): AsyncGenerator<Buffer> {
    const { store } = this.#parts
    for (let piece = 1; piece <= count; piece++) {
      if (this.#parts.isStopping()) throw new Abandoned()
      const der = await store.piece(this.#issuer.issuerKey, number, piece)
      if (!der) throw new Error('a piece of the list is gone: another instance has published a later one')
      yield der
    }
  }
}

/** The issuer's algorithm, or the same with a stronger hash; Ed25519 has its own. */
function algorithmFor(issuerAlgorithm: SignatureAlgorithm, hash: ListPolicy['hash']): SignatureAlgorithm {
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

const wholeSeconds = (at: Date): Date => new Date(Math.floor(at.getTime() / 1000) * 1000)

function latest(at: Date, other: Date | undefined): Date {
  return other && other > at ? other : at
}
