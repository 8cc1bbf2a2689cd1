/**
 * Compares the database with what its signer has recorded, from the mark of the database on
 * (docs/decisions/records-of-the-signer.md).
 *
 * A certificate has its intent before it is signed, and a row or its intent afterwards. A revocation is committed before the
 * signer hears of it. So only a database that went back to an earlier time lacks anything. An intent may be all that an older
 * copy has of a certificate that a client holds, so the mark does not pass it.
 */

import type { RecordedRevocations, RecordState, SerialPage, SignerRecords } from '../ca/signer-records.ts'
import { KEY_COMPROMISE } from '../domain/revocation.ts'
import { CLOCKS_DIFFER_MS } from '../shared/lib/clocks.ts'
import { settled, unwrap } from '../shared/lib/time-limit.ts'
import type { CrlStore } from '../store/crl-store.ts'
import {
  type IssuerRevocations,
  type ListedRevocation,
  type RevocationPlace,
  type SignerMarkStore,
  WHOLE_LINE,
  type WithoutCertificate,
} from '../store/signer-mark-store.ts'
import type { KnownIssuers, Restoration, SignedLine } from './restoration.ts'

/**
 * `restore`: brings back what lacks, and moves the mark. `count`: counts it. `probe`: stops at the first that lacks, and
 * moves the mark up to there.
 */
export type ComparisonMode = 'restore' | 'count' | 'probe'

export interface Lacking {
  certificates: number
  revocations: number
}

export interface Compared extends Lacking {
  /** The line up to which the database has every certificate. */
  reached: number
}

export interface ComparisonParts {
  records: SignerRecords
  marks: SignerMarkStore
  crls: Pick<CrlStore, 'raiseNumber'>
  restoration: Pick<Restoration, 'issuers' | 'read' | 'record' | 'revocations'>
  /** By the slow clock: the mark passes what has expired for good. */
  now(): Promise<Date>
  /** An intent of that age is nobody's work any more. */
  intentSeconds: number
  /**
   * Where expired certificates are archived: what was signed or revoked before so many days has expired. Undefined where the
   * database keeps them all; `ca.max_validity_days` may have been higher.
   */
  expiredAfterDays: number | undefined
  /** Called for each page that lacks something, before any of it comes back. @param serialNumbers in hexadecimal */
  onLacking(what: keyof Lacking, serialNumbers: readonly string[]): Promise<unknown>
  /** Revocations of these serial numbers have a time that is ahead or none; they count as of now. */
  onStrangeTimes(serialNumbers: readonly string[]): void
  isStopping(): boolean
}

/** Where a comparison begins. */
export interface Beginning {
  certificates: number
  revocations: RevocationPlace
}

const DAY_SECONDS = 86_400
/** 250,000 serial numbers: in their order, each page of the index is read once for all of them. */
const PAGES_TOGETHER = 100
/**
 * Serial numbers; they take about 100 MB. Beyond them a list has expired certificates, and a count has some revocations
 * twice. Neither does harm.
 */
const MOST_REMEMBERED = 1_000_000

export const FIRST: Beginning = { certificates: 0, revocations: { seq: 0, part: 0 } }

export class SignerComparison {
  readonly #parts: ComparisonParts
  /** Serial numbers of certificates that lack and have expired: their revocations need not come back either. */
  readonly #expired = new Set<string>()

  constructor(parts: ComparisonParts) {
    this.#parts = parts
  }

  /**
   * @param from the mark of the database; with `moves` false any place, such as FIRST, and the mark stays
   * @returns what the database lacked; with `probe`, of the first page that lacks something
   * @throws errors of database and signer; what was compared until then stays compared
   */
  async run(
    state: RecordState,
    { certificates, revocations }: Beginning,
    mode: ComparisonMode,
    moves: boolean = mode !== 'count',
  ): Promise<Compared> {
    const now = await this.#parts.now()
    const run: Run = { chain: state.chain, mode, moves, now, reached: certificates, underWay: [], counted: new Set() }
    const lacking = { certificates: 0, revocations: 0 }
    if (certificates < state.certificates.last) lacking.certificates = await this.#certificates(run, certificates)
    if (mode === 'probe' && lacking.certificates > 0) return { ...lacking, reached: run.reached }
    const { seq, part } = revocations
    if (seq < state.revocations.last || (seq === state.revocations.last && part < WHOLE_LINE && seq > 0))
      lacking.revocations = await this.#revocations(run, revocations)
    if (moves) await this.#raiseNumbers(state)
    return { ...lacking, reached: run.reached }
  }

  async #certificates(run: Run, from: number): Promise<number> {
    const { records, isStopping } = this.#parts
    let count = 0
    let pages: SerialPage[] = []
    let next = settled(records.serials(from))
    for (let after = from; ; ) {
      const page = await unwrap(next)
      // The signer reads the next page while the database looks this one up.
      if (page.more) next = settled(records.serials(page.last))
      pages.push(page)
      if (page.more && pages.length < PAGES_TOGETHER) continue
      count += await this.#lackingOfAll(run, after, pages)
      if (count > 0 && run.mode === 'probe') return count
      if (!page.more || isStopping()) return count
      after = page.last
      pages = []
    }
  }

  /** Many pages are looked up together, and one by one where something lacks. */
  async #lackingOfAll(run: Run, from: number, pages: readonly SerialPage[]): Promise<number> {
    if (pages.length > 1) {
      const together = joined(pages)
      const { lacking, underWay } = await this.#look(run, from, together, this.#unexpired(run, together))
      if (lacking.length + underWay.length === 0) {
        extend(run, from, together.last)
        return 0
      }
    }
    let count = 0
    let after = from
    for (const page of pages) {
      count += await this.#lackingOf(run, after, page)
      if (count > 0 && run.mode === 'probe') return count
      after = page.last
    }
    return count
  }

  /** Looks these places of the page up. The mark moves to the end of the page when each has its certificate. */
  async #look(
    { chain, moves }: Run,
    after: number,
    page: SerialPage,
    places: readonly number[],
  ): Promise<WithoutCertificate> {
    const { marks, intentSeconds } = this.#parts
    const stretch = moves ? { chain, after, last: page.last } : undefined
    const found = await marks.withoutCertificate(pick(page.serialNumbers, places), intentSeconds, stretch)
    return { lacking: pick(places, found.lacking), underWay: pick(places, found.underWay) }
  }

  #unexpired({ now }: Run, { signedAt }: SerialPage): number[] {
    const oldest = this.#oldestSeconds(now)
    return signedAt.flatMap((seconds, place) => (seconds < oldest ? [] : [place]))
  }

  /** @returns how many certificates of the page were lacking */
  async #lackingOf(run: Run, after: number, page: SerialPage): Promise<number> {
    const { restoration, marks, onLacking } = this.#parts
    const look = (places: readonly number[]) => this.#look(run, after, page, places)
    const all = this.#unexpired(run, page)
    const { lacking, underWay } = await look(all)
    run.underWay.push(...linesAt(page, underWay))
    if (lacking.length + underWay.length === 0) extend(run, after, page.last)
    if (lacking.length === 0) return 0
    const readable = await restoration.read(linesAt(page, lacking), run.now)
    const isOf = (sequences: { has(sequence: number): boolean }) => (place: number) =>
      sequences.has(page.sequences[place] ?? 0)
    remember(this.#expired, pick(page.serialNumbers, lacking.filter(isOf(readable.expired))))
    const lost = [...readable.givenUp.values()]
    // The mark stays before an issuance under way: each comparison finds again what was given up beside it.
    const news = run.mode === 'restore' ? await marks.noteGivenUp(run.chain, lost) : lost
    const untold = new Map(news.map((line) => [line.sequence, line]))
    const isKept = (place: number) => !isOf(readable.expired)(place) && !isOf(readable.givenUp)(place)
    const wanted = lacking.filter((place) => isKept(place) || isOf(untold)(place))
    if (wanted.length > 0) {
      await onLacking('certificates', pick(page.serialNumbers, wanted))
      if (run.mode !== 'restore') return wanted.length
      await restoration.record({ ...readable, givenUp: untold })
    }
    // The mark moves where all of the page is there: a database may have gone back meanwhile.
    const left = await look(all.filter(isKept))
    if (left.lacking.length > 0)
      throw new Error(`${left.lacking.length} certificates were brought back and are not there`)
    if (left.underWay.length === 0) extend(run, after, page.last)
    return wanted.length
  }

  /** What was signed or revoked before is not looked for. */
  #oldestSeconds(now: Date): number {
    const { expiredAfterDays } = this.#parts
    return expiredAfterDays === undefined ? 0 : now.getTime() / 1000 - expiredAfterDays * DAY_SECONDS
  }

  async #revocations(run: Run, from: RevocationPlace): Promise<number> {
    const { records, restoration, isStopping } = this.#parts
    let count = 0
    for (let after = from; ; ) {
      const page = await records.revocations(after)
      const listed = page.lines.length > 0 ? this.#listed(run, page.lines, await restoration.issuers()) : []
      const last = page.more ? page.last : { ...page.last, part: WHOLE_LINE }
      count += await this.#unrevoked(run, { after, last }, listed)
      if (count > 0 && run.mode === 'probe') return count
      if (!page.more || isStopping()) return count
      after = page.last
    }
  }

  async #unrevoked(run: Run, part: PartOfRevocations, listed: readonly Listed[]): Promise<number> {
    const { marks, restoration } = this.#parts
    const stretch = run.moves ? { chain: run.chain, ...part } : undefined
    const lacking = await marks.lackingRevocations(listed, stretch)
    const serialNumbers = lacking
      .flatMap(({ entries }) => entries.map((entry) => entry.serialNumber))
      .filter((serialNumber) => !run.counted.has(serialNumber))
    const count = serialNumbers.length
    if (count > 0) await this.#parts.onLacking('revocations', serialNumbers)
    if (run.mode === 'count') remember(run.counted, serialNumbers)
    if (run.mode !== 'restore' || count === 0) return count
    // Recovery gives an issuance up whose key is blocked by then, and its client has the certificate.
    await restoration.record(await restoration.read(run.underWay.splice(0), run.now))
    for (const one of lacking) await restoration.revocations(one, one.notAfter)
    if ((await marks.lackingRevocations(listed, stretch)).length > 0)
      throw new Error('a revocation cannot be brought back while its certificate is being issued')
    return count
  }

  /**
   * By issuer, each once: a revocation is recorded again by the first list after a start of the signer. Left out are entries of
   * certificates that have expired, and of issuers that the database does not know: no list of it can have them.
   */
  #listed(run: Run, lines: readonly RecordedRevocations[], { byKey, keyOf }: KnownIssuers): Listed[] {
    const oldest = this.#oldestSeconds(run.now) * 1000
    const isWanted = ({ serialNumber, revokedAt }: ListedRevocation) =>
      revokedAt.getTime() >= oldest && !this.#expired.has(serialNumber)
    const now = new Date()
    // A time that no clock has had may not keep a revocation from coming back, nor be after thisUpdate (RFC 5280 §5.1.2.6).
    const isOfClock = ({ revokedAt }: ListedRevocation) => revokedAt.getTime() <= now.getTime() + CLOCKS_DIFFER_MS
    const byIssuer = new Map<string, Map<string, ListedRevocation>>()
    for (const { issuerId, issuerKey = keyOf(issuerId), entries } of lines) {
      if (issuerKey === undefined) continue
      const listed = byIssuer.get(issuerKey) ?? new Map<string, ListedRevocation>()
      const strange = entries.filter((entry) => !isOfClock(entry))
      if (strange.length > 0) this.#parts.onStrangeTimes(strange.map(({ serialNumber }) => serialNumber))
      // A list that was under way when a key became known as compromised is recorded behind it.
      for (const entry of entries.map((one) => (isOfClock(one) ? one : { ...one, revokedAt: now })))
        if (isWanted(entry) && listed.get(entry.serialNumber)?.reason !== KEY_COMPROMISE)
          listed.set(entry.serialNumber, entry)
      byIssuer.set(issuerKey, listed)
    }
    return [...byIssuer].flatMap(([key, listed]) => {
      const issuer = byKey.get(key)
      const { fingerprints: issuerFingerprints, notAfter } = issuer ?? { fingerprints: [], notAfter: new Date(0) }
      return issuer ? [{ issuerFingerprints, notAfter, entries: [...listed.values()] }] : []
    })
  }

  /** The next number is above all that the signer has signed. */
  async #raiseNumbers({ lists }: RecordState): Promise<void> {
    const newest = new Map<string, bigint>()
    for (const { issuerKey, number } of lists) if (number > (newest.get(issuerKey) ?? 0n)) newest.set(issuerKey, number)
    for (const [issuerKey, number] of newest) await this.#parts.crls.raiseNumber(Buffer.from(issuerKey, 'hex'), number)
  }
}

interface Run {
  chain: string
  mode: ComparisonMode
  /** Whether the mark of the database moves. */
  moves: boolean
  now: Date
  reached: number
  /** Lines of issuances that are under way. */
  underWay: SignedLine[]
  /** Revocations that `count` has found: nothing brings them back, and a later page may have them again. */
  counted: Set<string>
}

interface PartOfRevocations {
  after: RevocationPlace
  last: RevocationPlace
}

interface Listed extends IssuerRevocations {
  notAfter: Date
}

function joined(pages: readonly SerialPage[]): SerialPage {
  return {
    sequences: pages.flatMap(({ sequences }) => sequences),
    serialNumbers: pages.flatMap(({ serialNumbers }) => serialNumbers),
    signedAt: pages.flatMap(({ signedAt }) => signedAt),
    last: pages.at(-1)?.last ?? 0,
    more: false,
  }
}

/** Every certificate after `after` up to `last` is there; before them one may still be under way. */
function extend(run: Run, after: number, last: number): void {
  if (run.reached === after) run.reached = last
}

function remember(remembered: Set<string>, serialNumbers: readonly string[]): void {
  for (const serialNumber of serialNumbers) if (remembered.size < MOST_REMEMBERED) remembered.add(serialNumber)
}

const linesAt = ({ sequences, signedAt, serialNumbers }: SerialPage, places: readonly number[]): SignedLine[] =>
  places.map((place) => ({
    sequence: sequences[place] ?? 0,
    signedAt: new Date(1000 * (signedAt[place] ?? 0)),
    serial: serialNumbers[place] ?? '',
  }))

const pick = <T>(items: readonly T[], places: readonly number[]): T[] => places.flatMap((place) => items[place] ?? [])
