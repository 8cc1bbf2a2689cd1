/**
 * Compares the database with what its signer has recorded, from the mark of the database on
 * (docs/decisions/records-of-the-signer.md).
 *
 * A certificate has its intent before it is signed, and a row or its intent afterwards. A revocation is committed before the
 * signer hears of it. So something is missing only in a database that went back to an earlier time. An intent may be all that
 * an older copy has of a certificate that a client holds, so the mark does not pass it.
 */

import type { RecordedRevocations, RecordState, SerialPage, SignerRecords } from '../../ca/signer-records.ts'
import { KEY_COMPROMISE } from '../../domain/revocation.ts'
import { CLOCKS_DIFFER_MS } from '../../shared/lib/clocks.ts'
import { settled, unwrap } from '../../shared/lib/time-limit.ts'
import type { CrlStore } from '../../store/crl-store.ts'
import {
  type GivenUp,
  type IssuerRevocations,
  type ListedRevocation,
  type RevocationPlace,
  type SignerMarkStore,
  WHOLE_LINE,
} from '../../store/signer-mark-store.ts'
import type { KnownIssuers, Restoration, SignedLine } from './restoration.ts'

const MODES = {
  /** Brings back what is missing, and moves the mark. */
  restore: { restores: true, stopsAtFirst: false, moves: true },
  /** The same from any place on, such as FIRST; the mark stays. */
  'restore all': { restores: true, stopsAtFirst: false, moves: false },
  count: { restores: false, stopsAtFirst: false, moves: false },
  /** Stops at the first that is missing, and moves the mark up to there. */
  probe: { restores: false, stopsAtFirst: true, moves: true },
} as const

type ComparisonMode = keyof typeof MODES

export interface Missing {
  certificates: number
  revocations: number
}

interface Compared extends Missing {
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
  /** Called for each page with something missing, before any of it comes back. @param serialNumbers in hexadecimal */
  onMissing(what: keyof Missing, serialNumbers: readonly string[]): Promise<unknown>
  /** Revocations of these serial numbers have a time that is ahead or none; they count as of now. */
  onStrangeTimes(serialNumbers: readonly string[]): void
  isStopping(): boolean
}

/** Where a comparison begins. */
interface Beginning {
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
  /** Serial numbers of missing certificates that have expired: their revocations need not come back either. */
  readonly #expired = new Set<string>()

  constructor(parts: ComparisonParts) {
    this.#parts = parts
  }

  /**
   * @param from the mark of the database, or any place where the mode moves no mark
   * @returns what was missing; with `stopsAtFirst` only up to the first page with something missing
   * @throws errors of database and signer; what was compared until then stays compared
   */
  async run(state: RecordState, from: Beginning, mode: ComparisonMode): Promise<Compared> {
    const { certificates, revocations } = from
    const run: Run = {
      ...MODES[mode],
      chain: state.chain,
      now: await this.#parts.now(),
      reached: certificates,
      underWay: [],
      counted: new Set(),
    }
    const missing = { certificates: 0, revocations: 0 }
    if (certificates < state.certificates.last) missing.certificates = await this.#certificates(run, certificates)
    if (run.stopsAtFirst && missing.certificates > 0) return { ...missing, reached: run.reached }
    const { seq, part } = revocations
    if (seq < state.revocations.last || (seq === state.revocations.last && part < WHOLE_LINE && seq > 0))
      missing.revocations = await this.#revocations(run, revocations)
    if (run.moves) await this.#raiseNumbers(state)
    return { ...missing, reached: run.reached }
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
      count += await this.#comparePages(run, after, pages)
      if (count > 0 && run.stopsAtFirst) return count
      if (!page.more || isStopping()) return count
      after = page.last
      pages = []
    }
  }

  /** Many pages are looked up together, and one by one where something is missing. */
  async #comparePages(run: Run, from: number, pages: readonly SerialPage[]): Promise<number> {
    if (pages.length > 1) {
      const stretch = { after: from, last: pages.at(-1)?.last ?? from }
      const { missing, underWay } = await this.#look(
        run,
        stretch,
        pages.flatMap((page) => this.#linesOf(run, page)),
      )
      if (missing.length + underWay.length === 0) return 0
    }
    let count = 0
    let after = from
    for (const page of pages) {
      count += await this.#compare(run, { after, last: page.last }, this.#linesOf(run, page))
      if (count > 0 && run.stopsAtFirst) return count
      after = page.last
    }
    return count
  }

  /** The lines of a page whose certificates may not have expired. */
  #linesOf({ now }: Run, { sequences, serialNumbers, signedAt }: SerialPage): SignedLine[] {
    const oldest = this.#oldestSeconds(now)
    return signedAt.flatMap((seconds, place) => {
      const [sequence, serial] = [sequences[place], serialNumbers[place]]
      if (seconds < oldest || sequence === undefined || serial === undefined) return []
      return [{ sequence, serial, signedAt: new Date(1000 * seconds) }]
    })
  }

  /** @returns how many certificates of these lines were missing */
  async #compare(run: Run, stretch: Stretch, lines: readonly SignedLine[]): Promise<number> {
    const { restoration, onMissing } = this.#parts
    const { missing, underWay } = await this.#look(run, stretch, lines)
    run.underWay.push(...underWay)
    if (missing.length === 0) return 0
    const readable = await restoration.read(missing, run.now)
    const { expired, givenUp } = readable
    const gone = missing.filter(({ sequence }) => expired.has(sequence))
    remember(this.#expired, gone.map(serialOf))
    const isRestorable = ({ sequence }: SignedLine) => !expired.has(sequence) && !givenUp.has(sequence)
    const news = await this.#newlyGivenUp(run, [...givenUp.values()])
    const wanted = missing.filter((line) => isRestorable(line) || news.has(line.sequence))
    if (wanted.length > 0) {
      await onMissing('certificates', wanted.map(serialOf))
      if (!run.restores) return wanted.length
      await restoration.record({ ...readable, givenUp: news })
    }
    // Looked up again, because the database may have gone back meanwhile.
    const left = await this.#look(run, stretch, lines.filter(isRestorable))
    if (left.missing.length > 0)
      throw new Error(`${left.missing.length} certificates were brought back and are not there`)
    return wanted.length
  }

  /** Looks lines up. Where each has its certificate, the mark moves to the end of the stretch. */
  async #look(run: Run, stretch: Stretch, lines: readonly SignedLine[]): Promise<Looked> {
    const { marks, intentSeconds } = this.#parts
    const moving = run.moves ? { chain: run.chain, ...stretch } : undefined
    const found = await marks.withoutCertificate(lines.map(serialOf), intentSeconds, moving)
    const at = (place: number) => lines[place] ?? []
    const looked = { missing: found.missing.flatMap(at), underWay: found.underWay.flatMap(at) }
    // Before these lines an issuance may still be under way.
    if (looked.missing.length + looked.underWay.length === 0 && run.reached === stretch.after)
      run.reached = stretch.last
    return looked
  }

  /** The mark stays before an issuance under way, so each comparison finds again what was given up beside it. */
  async #newlyGivenUp({ chain, restores }: Run, lost: readonly GivenUp[]): Promise<Map<number, GivenUp>> {
    const news = restores ? await this.#parts.marks.noteGivenUp(chain, lost) : lost
    return new Map(news.map((line) => [line.sequence, line]))
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
      if (count > 0 && run.stopsAtFirst) return count
      if (!page.more || isStopping()) return count
      after = page.last
    }
  }

  async #unrevoked(run: Run, part: PartOfRevocations, listed: readonly Listed[]): Promise<number> {
    const { marks, restoration } = this.#parts
    const stretch = run.moves ? { chain: run.chain, ...part } : undefined
    const missing = await marks.missingRevocations(listed, stretch)
    const serialNumbers = missing
      .flatMap(({ entries }) => entries.map((entry) => entry.serialNumber))
      .filter((serialNumber) => !run.counted.has(serialNumber))
    const count = serialNumbers.length
    if (count > 0) await this.#parts.onMissing('revocations', serialNumbers)
    if (!run.restores) remember(run.counted, serialNumbers)
    if (!run.restores || count === 0) return count
    // Recovery gives an issuance up whose key is blocked by then, and its client has the certificate.
    await restoration.record(await restoration.read(run.underWay.splice(0), run.now))
    for (const one of missing) await restoration.revocations(one, one.notAfter)
    if ((await marks.missingRevocations(listed, stretch)).length > 0)
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
      if (!issuer) return []
      return [{ issuerFingerprints: issuer.fingerprints, notAfter: issuer.notAfter, entries: [...listed.values()] }]
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
  restores: boolean
  stopsAtFirst: boolean
  /** Whether the mark of the database moves. */
  moves: boolean
  chain: string
  now: Date
  reached: number
  /** Lines of issuances that are under way. */
  underWay: SignedLine[]
  /** Revocations that were only counted: nothing brings them back, and a later page may have them again. */
  counted: Set<string>
}

/** Lines after `after` up to `last`. */
interface Stretch {
  after: number
  last: number
}

interface Looked {
  missing: SignedLine[]
  /** Without a certificate, and with an intent. */
  underWay: SignedLine[]
}

interface PartOfRevocations {
  after: RevocationPlace
  last: RevocationPlace
}

interface Listed extends IssuerRevocations {
  notAfter: Date
}

function remember(remembered: Set<string>, serialNumbers: readonly string[]): void {
  for (const serialNumber of serialNumbers) if (remembered.size < MOST_REMEMBERED) remembered.add(serialNumber)
}

const serialOf = ({ serial }: SignedLine): string => serial
