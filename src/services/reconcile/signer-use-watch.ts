/**
 * Announces the database of this instance at the signer, and keeps what the signer says of others
 * (docs/operations/failover.md, "Another database at the same signer").
 */

import { type DatabasePlace, describeOthers, type SignerRecords, type SignerUse } from '../../ca/signer-records.ts'

interface SignerUseParts {
  records: Pick<SignerRecords, 'announce'>
  /** @throws database errors */
  place(): Promise<DatabasePlace>
  requester: string
  /** Called after each announcement with the number of other databases. */
  onAnswer(others: number): void
}

/** Until an alarm may come again. */
const AGAIN_MS = 3_600_000
const ALONE: SignerUse = { others: [], isSettled: true }

export class SignerUseWatch {
  readonly #parts: SignerUseParts
  /** Undefined while it is not known, or no longer. */
  #answer: (SignerUse & { place: DatabasePlace }) | undefined
  /** When another database was seen last, by `performance.now()`. */
  #sharedAt = Number.NEGATIVE_INFINITY

  constructor(parts: SignerUseParts) {
    this.#parts = parts
  }

  get isShared(): boolean {
    return (this.#answer?.others.length ?? 0) > 0
  }

  /** A copy has the identity of this one, and so do its decisions. */
  get isCopied(): boolean {
    const answer = this.#answer
    return answer?.others.some(({ database }) => database === answer.place.database) === true
  }

  /** Whether the signer has said since the last `doubt` that nobody else is there. */
  get isAlone(): boolean {
    return this.#answer?.isSettled === true && !this.isShared
  }

  /** What came before an announcement may be the work of a database that is announced later. */
  doubt(): void {
    if (!this.isShared) this.#answer = undefined
  }

  /** @throws errors of database and signer */
  async announce(): Promise<void> {
    const { records, place, requester, onAnswer } = this.#parts
    try {
      const own = await place()
      const use = await records.announce(own, { requester, remember: true })
      this.#answer = { ...(use ?? ALONE), place: own }
    } catch (error) {
      this.#answer = undefined
      throw error
    } finally {
      onAnswer(this.#answer?.others.length ?? 0)
    }
  }

  /** @returns who else is there, for an alarm; undefined where nobody is, and until that has been over for an hour */
  takeAlarm(): string | undefined {
    const answer = this.#answer
    if (!answer || !this.isShared) return undefined
    const now = performance.now()
    const isNew = now - this.#sharedAt >= AGAIN_MS
    this.#sharedAt = now
    return isNew ? describeOthers(answer.place, answer) : undefined
  }
}
