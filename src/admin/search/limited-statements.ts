/** Statements that share a bounded time. PostgreSQL itself cancels the one that runs at its end: nothing is left behind. */

import * as z from 'zod/v4'
import { type CommonQueryMethods, type DatabasePool, rowsOf, StatementTimeoutError } from '../../store/slonik.ts'

class OutOfTime extends Error {}

/**
 * Runs the statements of `work` one after another on one connection.
 * @param ms from the moment at which the connection is there: work that waits for its turn loses no time
 * @returns undefined when the time was too short
 */
export async function withinTime<T>(
  db: DatabasePool,
  ms: number,
  work: (db: CommonQueryMethods) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await db.transaction((tx) => work(limited(tx, performance.now() + ms)))
  } catch (error) {
    if (error instanceof OutOfTime || error instanceof StatementTimeoutError) return undefined
    throw error
  }
}

function limited(tx: CommonQueryMethods, endsAt: number): CommonQueryMethods {
  let last: Promise<unknown> = Promise.resolve()
  const inTurn =
    (run: (...words: unknown[]) => Promise<unknown>) =>
    (...words: unknown[]) => {
      last = last.then(async () => {
        const left = Math.ceil(endsAt - performance.now())
        if (left <= 0) throw new OutOfTime()
        await tx.query(rowsOf(z.object({}))`SELECT set_config('statement_timeout', ${`${left}`}, true)`)
        return run(...words)
      })
      return last
    }
  const methods = Object.entries(tx).map(([name, method]) => [name, inTurn(method as never)])
  return Object.fromEntries(methods) as unknown as CommonQueryMethods
}
