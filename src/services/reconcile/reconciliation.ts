/**
 * Keeps the database level with its signer: one comparison before each round of CRLs, what follows where something is missing,
 * and what the lists have to know (docs/decisions/records-of-the-signer.md).
 */

import type { RecordDamage, RecordState, SignerRecords } from '../../ca/signer-records.ts'
import type { SignerMark, SignerMarkStore } from '../../store/signer-mark-store.ts'
import type { Missing, SignerComparison } from './signer-comparison.ts'

export interface ReconciliationEvents {
  /** Something is missing; once an episode, among all instances. With `found`, an operator has to bring it back. */
  behind(found: Missing | undefined): void
  /** Everything is there again. */
  complete(since: Date): void
  /** The signer is of an earlier release; once. */
  noRecords(): void
  /** The signer has removed records that the database has not compared; once an episode. */
  gap(from: number, to: number): void
  /** The signer has fewer records than were compared: after a loss of power, or with files of an earlier day. */
  fewer(last: number, compared: number): void
  /** The signer has found lines of its records that cannot be read; again when there are more. */
  damaged(found: RecordDamage): void
  /** A round begins, and the signer has answered. */
  looked(): Promise<void>
}

export interface ReconciliationParts {
  records: Pick<SignerRecords, 'state' | 'damage'>
  marks: Pick<SignerMarkStore, 'mark' | 'lower' | 'noteBehind' | 'noteNothingMissing'>
  comparison: Pick<SignerComparison, 'run'>
  /** `automatic` brings back what is missing; `manual` only says that it is. */
  mode: 'automatic' | 'manual'
  events: ReconciliationEvents
  isStopping(): boolean
}

/** Each question makes the signer read two of its files. */
const DAMAGE_MS = 60_000

/** Why a list is not built. */
const MANUAL = 'the database lacks what the signer has recorded; run "chancery reconcile"'
const STOPPING = 'the service is stopping'
const OLDER = 'the database went back to an earlier time while the list was built'

export class Reconciliation {
  readonly #parts: ReconciliationParts
  /** Undefined before the first answer of the signer, null when it keeps no records. */
  #state: RecordState | null | undefined
  /** Its newest numbers, by `nameOf`. */
  #newest = new Map<string, bigint>()
  #compared: { chain: string; certificates: number; revocations: number } | undefined
  #isBehind = false
  /** This instance has found it, and is to count and report it. */
  #isUnreported = false
  /** First numbers behind gaps. */
  readonly #reportedGaps = new Set<number>()
  #damageAskedAt = Number.NEGATIVE_INFINITY
  #reportedDamage = 0

  constructor(parts: ReconciliationParts) {
    this.#parts = parts
  }

  /** Whether this instance knows that something is missing in the database. */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** Asks what the signer has recorded. @throws its errors */
  async look(): Promise<RecordState | undefined> {
    const state = await this.#parts.records.state()
    if (!state && this.#state !== null) this.#parts.events.noRecords()
    this.#state = state ?? null
    this.#newest = new Map(state?.lists.map(({ issuerKey, url, number }) => [nameOf(issuerKey, url), number]))
    return state
  }

  /**
   * Compares, and brings back what is missing.
   * @returns why no list may be built now; undefined when one may
   * @throws errors of database and signer
   */
  async round(): Promise<string | undefined> {
    this.#compared = undefined
    const { marks, comparison, mode } = this.#parts
    const state = await this.look()
    if (!state) return undefined
    await this.#parts.events.looked()
    await this.#askForDamage()
    const mark = await this.#markFor(state)
    // Another instance may have ended what this one began; this one has yet to report what it brought back.
    this.#isBehind ||= mark.behindSince !== undefined
    this.#reportGap(state.certificates.first, mark.certificates)
    this.#reportGap(state.revocations.first, mark.revocations.seq)
    const found = await comparison.run(state, mark, mode === 'automatic' ? 'restore' : 'probe')
    if (mode === 'manual' && found.certificates + found.revocations > 0) {
      if (this.#isUnreported) this.#parts.events.behind(await comparison.run(state, mark, 'count'))
      this.#isUnreported = false
      return MANUAL
    }
    if (this.#parts.isStopping()) return STOPPING
    if (this.#isBehind) {
      await marks.noteNothingMissing()
      this.#isBehind = false
      this.#parts.events.complete(mark.behindSince ?? new Date())
    }
    this.#compared = { chain: state.chain, certificates: found.reached, revocations: state.revocations.last }
    return undefined
  }

  /** For the comparison, before anything comes back. */
  async noteBehind(): Promise<void> {
    if (this.#isBehind || !this.#state) return
    this.#isBehind = true
    if (!(await this.#parts.marks.noteBehind(this.#state.chain))) return
    if (this.#parts.mode === 'automatic') this.#parts.events.behind(undefined)
    else this.#isUnreported = true
  }

  /**
   * A list has all that its predecessors had where the database still has the mark of this comparison.
   * @throws Error when it has gone back since
   */
  async requireCompared(): Promise<void> {
    const compared = this.#compared
    if (!compared) return
    const { certificates, revocations } = await this.#parts.marks.mark(compared.chain)
    if (certificates < compared.certificates || revocations.seq < compared.revocations) throw new Error(OLDER)
  }

  /** The newest number that was signed for a list, 0 for none; undefined while the signer has not said. */
  newestSigned(issuerKey: Buffer, url: string): bigint | undefined {
    if (this.#state === undefined) return undefined
    return this.#newest.get(nameOf(issuerKey.toString('hex'), url)) ?? 0n
  }

  /** A mark beyond the records goes back to them: the signer may give the numbers behind to other certificates. */
  async #markFor({ chain, certificates, revocations }: RecordState): Promise<SignerMark> {
    const { marks, events } = this.#parts
    const mark = await marks.mark(chain)
    const beyond = Math.max(mark.certificates - certificates.last, mark.revocations.seq - revocations.last)
    if (beyond <= 0) return mark
    events.fewer(Math.max(certificates.last, revocations.last), Math.max(mark.certificates, mark.revocations.seq))
    await marks.lower(chain, { certificates: certificates.last, revocations: revocations.last })
    return marks.mark(chain)
  }

  async #askForDamage(): Promise<void> {
    if (performance.now() - this.#damageAskedAt < DAMAGE_MS) return
    this.#damageAskedAt = performance.now()
    const found = await this.#parts.records.damage()
    const lines = Object.values(found ?? {}).reduce((sum, one) => sum + one.lines, 0)
    if (found && lines > this.#reportedDamage) this.#parts.events.damaged(found)
    this.#reportedDamage = Math.max(this.#reportedDamage, lines)
  }

  #reportGap(first: number, mark: number): void {
    if (first <= mark + 1 || mark === 0 || this.#reportedGaps.has(first)) return
    this.#reportedGaps.add(first)
    this.#parts.events.gap(mark + 1, first - 1)
  }
}

const nameOf = (issuerKey: string, url: string): string => `${issuerKey} ${url}`
