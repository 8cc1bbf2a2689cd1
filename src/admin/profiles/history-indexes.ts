/**
 * The indexes of issuance history, which profiles with `reuse_key` or `renewal_window_days` need
 * before they are stored. On a large table they take minutes, so a request waits only for a while.
 */

import type { DatabasePool } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import { HISTORY_INDEXES, makeIndexes, readIndexes } from '../../store/optional-indexes.ts'
import { isNotOwner } from '../../store/slonik.ts'

/** Below the time limit of clients. */
export const INDEX_WAIT_MS = 20_000
const RETRY_SECONDS = 30

export class HistoryIndexes {
  readonly #db: DatabasePool
  readonly #waitMs: number | undefined
  #making: Promise<void> | undefined

  /** @param waitMs undefined waits until they are there */
  constructor(db: DatabasePool, waitMs: number | undefined) {
    this.#db = db
    this.#waitMs = waitMs
  }

  async exist(): Promise<boolean> {
    const found = await readIndexes(this.#db, HISTORY_INDEXES)
    return found.length === Object.keys(HISTORY_INDEXES).length && found.every(({ valid }) => valid)
  }

  /** @throws AdminError unavailable while they are being made, and where the service may not make them */
  async require(): Promise<void> {
    if (await this.exist()) return
    this.#making ??= makeIndexes(this.#db, HISTORY_INDEXES)
      .catch((error: unknown) => {
        throw isNotOwner(error) ? notOwner(error) : error
      })
      .finally(() => {
        this.#making = undefined
      })
    const making = this.#making
    if (this.#waitMs === undefined) return making
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(resolve, this.#waitMs, 'late')
    })
    const first = await Promise.race([making, late]).finally(() => clearTimeout(timer))
    if (first !== 'late') return
    // The next request reports a failure.
    making.catch(() => undefined)
    throw new AdminError(
      'unavailable',
      "an index that 'reuse_key' and 'renewal_window_days' need is being made; send the request again in a while",
      { retryAfterSeconds: RETRY_SECONDS },
    )
  }
}

const notOwner = (cause: unknown) =>
  new AdminError(
    'unavailable',
    "'reuse_key' and 'renewal_window_days' need an index that only the owner of the tables can make; have the owner run chancery db search-indexes --history",
    { cause },
  )
