/**
 * Puts decisions into a second place before they are answered: the signer's records, or a file beside the instance where the
 * signer does not take them (docs/decisions/decisions-outlive-the-database.md).
 */

import { MAX_DECISION_BYTES, MAX_DECISIONS, type SignerRecords } from '../../ca/signer-records.ts'
import { type DatabaseIdentity, type Decision, recorded } from '../../domain/decision.ts'
import type { DecisionFile } from './decision-file.ts'

interface DecisionRecorderParts {
  identity: DatabaseIdentity
  /** The incarnation in which they are decided. */
  incarnation(): string | undefined
  /** Undefined where no certificate is signed here. */
  records: Pick<SignerRecords, 'noteDecisions'> | undefined
  /** Undefined where none is configured. */
  file: Pick<DecisionFile, 'append'> | undefined
  /** In log and audit lines of the signer. */
  requester: string
  /** The signer did not take them, and the file did. */
  onFile(reason: string): void
  /** Acts that only the database has, because too many waited for a second place. */
  onDropped(count: number): void
}

/** What was decided is in effect, and a fail-over could still undo it. */
export class NotRecorded extends Error {
  constructor(reason: string) {
    super(`done, but not in a second place yet, so a fail-over of the database could undo it: ${reason}`)
    this.name = 'NotRecorded'
  }
}

const TIMEOUT_MS = 2_000
/** Acts answered 503 that are kept in memory. */
const MOST_UNPLACED = 1_000
/** Room for the brackets and commas of the list. */
const MOST_BYTES = MAX_DECISION_BYTES - MAX_DECISIONS - 2

interface Waiting {
  text: string
  resolve(): void
  reject(error: Error): void
}

export class DecisionRecorder {
  readonly #parts: DecisionRecorderParts
  readonly #waiting: Waiting[] = []
  /** Acts that are done and recorded nowhere yet. A repeated act finds nothing to do. */
  readonly #unplaced: string[] = []
  #placing: Promise<void> = Promise.resolve()
  #isAtWork = false

  constructor(parts: DecisionRecorderParts) {
    this.#parts = parts
  }

  /** Resolves when they, and all before them, are on a disk. @throws NotRecorded */
  async note(decisions: readonly Decision[]): Promise<void> {
    const noted = decisions.map((decision) => this.#queue(decision))
    void this.#work()
    await Promise.all(noted)
    if (decisions.length === 0) await this.placeRest()
  }

  /** Resolves when nothing is left to be placed. @throws NotRecorded */
  placeRest(): Promise<void> {
    // One after the other: a later act must not overtake one that is under way.
    this.#placing = this.#placing.catch(() => undefined).then(() => this.#placeAll())
    return this.#placing
  }

  async #placeAll(): Promise<void> {
    while (this.#unplaced.length > 0) {
      const texts = this.#unplaced.slice(0, countWithin(this.#unplaced))
      try {
        await this.#put(texts)
      } catch (error) {
        const dropped = this.#unplaced.splice(MOST_UNPLACED).length
        if (dropped > 0) this.#parts.onDropped(dropped)
        throw new NotRecorded((error as Error).message)
      }
      this.#unplaced.splice(0, texts.length)
    }
  }

  #queue(decision: Decision): Promise<void> {
    const { identity, incarnation } = this.#parts
    const placed = { ...decision, incarnation: incarnation() }
    const whole = JSON.stringify(recorded(identity, placed))
    // Its time, its author and what it was about are recorded all the same.
    const isTooLong = Buffer.byteLength(whole) > MOST_BYTES
    const text = isTooLong ? JSON.stringify(recorded(identity, cut(placed))) : whole
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, resolve, reject })
    })
  }

  /** Acts that arrive meanwhile form the next group. */
  async #work(): Promise<void> {
    if (this.#isAtWork) return
    this.#isAtWork = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, countWithin(this.#waiting.map(({ text }) => text)))
      // Acts that could not be placed before go first.
      this.#unplaced.push(...group.map(({ text }) => text))
      try {
        await this.placeRest()
        for (const { resolve } of group) resolve()
      } catch (error) {
        for (const { reject } of group) reject(error as Error)
      }
    }
    this.#isAtWork = false
  }

  async #put(texts: readonly string[]): Promise<void> {
    const { records, file, requester, onFile } = this.#parts
    const reason = records ? await this.#report(records, texts, requester) : 'no certificate is signed here'
    if (reason === undefined) return
    if (!file) throw new Error(reason)
    await file.append(texts)
    if (records) onFile(reason)
  }

  /** @returns why the signer did not take them */
  async #report(
    records: Pick<SignerRecords, 'noteDecisions'>,
    texts: readonly string[],
    requester: string,
  ): Promise<string | undefined> {
    try {
      const isTaken = await records.noteDecisions(Buffer.from(`[${texts.join(',')}]`), requester, TIMEOUT_MS)
      return isTaken ? undefined : 'the signer is of an earlier release and records no decisions'
    } catch (error) {
      return (error as Error).message
    }
  }
}

/** How many of these fit into one request, at least one. */
function countWithin(texts: readonly string[]): number {
  let bytes = 0
  let count = 0
  for (const text of texts) {
    bytes += Buffer.byteLength(text)
    if (count > 0 && (bytes > MOST_BYTES || count === MAX_DECISIONS)) break
    count += 1
  }
  return count
}

const cut = ({ details: _, ...decision }: Decision): Decision => ({ ...decision, details: { cut: true } })
