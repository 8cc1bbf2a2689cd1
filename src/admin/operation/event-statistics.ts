/** What the consumer `statistics` has kept of events: counts by hour, and failures of accounts. */

import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import { accountExists } from '../../store/credential-store.ts'
import {
  type AccountFailure,
  type HourlyCount,
  listAccountFailures,
  listFailures,
  readEventCounts,
} from '../../store/event-statistics-store.ts'

export class EventStatistics {
  readonly #db: DatabasePool

  constructor(db: DatabasePool) {
    this.#db = db
  }

  counts(hours: number): Promise<readonly HourlyCount[]> {
    return readEventCounts(this.#db, hours)
  }

  failures(since: Date, place: { limit: number; offset: number }): Promise<readonly AccountFailure[]> {
    return listFailures(this.#db, since, place)
  }

  /** The last 50, the newest first. */
  async failuresOf(accountId: string): Promise<readonly AccountFailure[]> {
    if (!(await accountExists(this.#db, accountId))) throw notFound('account')
    return listAccountFailures(this.#db, accountId)
  }
}
