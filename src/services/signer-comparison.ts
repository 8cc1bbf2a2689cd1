/**
 * Compares the database with what its signer has recorded, from the mark of the database on
 * (docs/decisions/records-of-the-signer.md).
 *
 * A certificate has its intent before it is signed, and a row or its intent afterwards. A revocation is committed before the
 * signer hears of it. So only a database that went back to an earlier time lacks anything.
 */

import type { RecordedRevocations, RecordState, SerialPage, SignerRecords } from '../ca/signer-records.ts'
import { settled, unwrap } from '../shared/lib/settled.ts'
import type { CrlStore } from '../store/crl-store.ts'
import {
  type IssuerRevocations,
  type ListedRevocation,
  type RevocationPlace,
  type SignerMarkStore,
  WHOLE_LINE,
} from '../store/signer-mark-store.ts'
import type { KnownIssuers, Restoration } from './restoration.ts'

/**
 * `restore`: brings back what lacks, and moves the mark. `count`: counts it. `probe`: stops at the first that lacks, and
 * moves the mark up to there.
 */
export type ComparisonMode = 'restore' | 'count' | 'probe'

export interface Lacking {
  certificates: number
  revocations: number
}

export interface ComparisonParts {
  records: SignerRecords
  marks: SignerMarkStore
  crls: Pick<CrlStore, 'raiseNumber'>
  restoration: Pick<Restoration, 'issuers' | 'certificates' | 'revocations'>
  /** An intent of that age is nobody's work any more. */
  intentSeconds: number
  /** Called for each page that lacks something, before any of it comes back. */
  onBehind(): Promise<unknown>
  isStopping(): boolean
}

/** Where a comparison begins. */
interface Beginning {
  certificates: number
  revocations: RevocationPlace
}

export const FIRST: Beginning = { certificates: 0, revocations: { seq: 0, part: 0 } }

export class SignerComparison {
  readonly #parts: ComparisonParts

  constructor(parts: ComparisonParts) {
    this.#parts = parts
  }

  /**
   * @param beginning the mark of the database when undefined
   * @returns what the database lacked; with `probe`, of the first page that lacks something
   * @throws errors of database and signer; what was compared until then stays compared
   */
  async run(state: RecordState, mode: ComparisonMode, beginning?: Beginning): Promise<Lacking> {
    const mark = await this.#parts.marks.mark(state.chain)
    const { certificates, revocations } = beginning ?? mark
    const moves = mode !== 'count' && beginning === undefined
    const lacking = { certificates: 0, revocations: 0 }
    if (certificates < state.certificates.last)
      lacking.certificates = await this.#certificates({ chain: state.chain, mode, moves }, certificates)
    if (mode === 'probe' && lacking.certificates > 0) return lacking
    const { seq, part } = revocations
    if (seq < state.revocations.last || (seq === state.revocations.last && part < WHOLE_LINE && seq > 0))
      lacking.revocations = await this.#revocations({ chain: state.chain, mode, moves }, revocations)
    if (moves) await this.#raiseNumbers(state)
    return lacking
  }

  async #certificates(run: Run, from: number): Promise<number> {
    const { records, isStopping } = this.#parts
    let count = 0
    let next = settled(records.serials(from))
    for (let after = from; ; ) {
      const page = await unwrap(next)
      // The signer reads the next page while the database looks this one up.
      if (page.more) next = settled(records.serials(page.last))
      const lacking = await this.#lackingOf(run, after, page)
      count += lacking.length
      if (lacking.length > 0 && run.mode === 'probe') return count
      if (!page.more || isStopping()) return count
      after = page.last
    }
  }

  /** @returns lines of the page that were lacking */
  async #lackingOf({ chain, mode, moves }: Run, after: number, page: SerialPage): Promise<number[]> {
    const { marks, restoration, intentSeconds } = this.#parts
    const stretch = moves ? { chain, after, last: page.last } : undefined
    const look = async (places: readonly number[]) => {
      const serialNumbers = places.flatMap((place) => page.serialNumbers[place] ?? [])
      const lacking = await marks.lackingCertificates(serialNumbers, intentSeconds, stretch)
      return lacking.flatMap((at) => places[at] ?? [])
    }
    const sequencesOf = (places: readonly number[]) => places.flatMap((place) => page.sequences[place] ?? [])
    const all = page.sequences.map((_, place) => place)
    const lacking = await look(all)
    if (lacking.length > 0 && moves) await this.#parts.onBehind()
    if (mode !== 'restore' || lacking.length === 0) return sequencesOf(lacking)
    const givenUp = await restoration.certificates(sequencesOf(lacking))
    // The mark moves where all of the page is there: a database may have gone back meanwhile.
    const left = await look(all.filter((place) => !givenUp.has(page.sequences[place] ?? 0)))
    if (left.length > 0) throw new Error(`${left.length} certificates were brought back and are not there`)
    return sequencesOf(lacking)
  }

  async #revocations(run: Run, from: RevocationPlace): Promise<number> {
    const { records, restoration, isStopping } = this.#parts
    let count = 0
    for (let after = from; ; ) {
      const page = await records.revocations(after)
      const listed = page.lines.length > 0 ? byIssuer(page.lines, await restoration.issuers()) : []
      const last = page.more ? page.last : { ...page.last, part: WHOLE_LINE }
      count += await this.#unrevoked(run, { after, last }, listed)
      if (count > 0 && run.mode === 'probe') return count
      if (!page.more || isStopping()) return count
      after = page.last
    }
  }

  async #unrevoked({ chain, mode, moves }: Run, part: PartOfRevocations, listed: readonly Listed[]): Promise<number> {
    const { marks, restoration } = this.#parts
    const stretch = moves ? { chain, ...part } : undefined
    const lacking = await marks.lackingRevocations(listed, stretch)
    const count = lacking.reduce((sum, { entries }) => sum + entries.length, 0)
    if (count > 0 && moves) await this.#parts.onBehind()
    if (mode !== 'restore' || count === 0) return count
    for (const one of lacking) await restoration.revocations(one, one.notAfter)
    if ((await marks.lackingRevocations(listed, stretch)).length > 0)
      throw new Error('a revocation cannot be brought back while its certificate is being issued')
    return count
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
}

interface PartOfRevocations {
  after: RevocationPlace
  last: RevocationPlace
}

interface Listed extends IssuerRevocations {
  notAfter: Date
}

/** Entries of issuers that the database does not know are left out: no list of it can have them. */
function byIssuer(lines: readonly RecordedRevocations[], { byKey, keyOf }: KnownIssuers): Listed[] {
  const entries = new Map<string, ListedRevocation[]>()
  for (const { issuerId, issuerKey = keyOf(issuerId), entries: more } of lines)
    if (issuerKey !== undefined) entries.set(issuerKey, [...(entries.get(issuerKey) ?? []), ...more])
  return [...entries].flatMap(([key, listed]) => {
    const issuer = byKey.get(key)
    return issuer ? [{ issuerFingerprints: issuer.fingerprints, notAfter: issuer.notAfter, entries: listed }] : []
  })
}
