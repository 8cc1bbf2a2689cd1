/**
 * Applies one migration without keeping clients waiting.
 *
 * A lock that waits lets nobody else pass, so no lock is waited for longer than a second: the transaction is rolled back,
 * the clients get their turn, and it is tried again. Statements of a `-- concurrently` file exclude no reader or writer, also
 * while they wait, and may wait for as long as it takes.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { isWorthRepeating } from '../sqlstate.ts'
import { runConcurrently } from './concurrent-statements.ts'
import type { MigrationFile } from './migration-files.ts'
import { recordApplied } from './schema-state.ts'
import { describeHolders, type Holder, type MigrationSession, watched } from './waiting.ts'

/** The service refuses requests once connections are busy for a second (STUCK_MS in database.ts). */
const LOCK_TIMEOUT_MS = 800
/** Autovacuum gives way after `deadlock_timeout`, a second. Its processes have no application name. */
const AUTOVACUUM_TIMEOUT_MS = 2_000
const LOCK_NOT_AVAILABLE = '55P03'

/** Long enough for what has queued to get through, and different each time: the holder may have a rhythm. */
const pauseMs = () => 1_000 + Math.random() * 2_000

/** @throws Error that names the file */
export async function applyMigration(session: MigrationSession, file: MigrationFile): Promise<void> {
  const startedAt = performance.now()
  session.report(`${file.name}: begun`, true)
  try {
    if (file.isConcurrent) await runConcurrently(session, file)
    await untilGranted(session, file)
  } catch (cause) {
    throw new Error(`migration ${file.name} failed: ${(cause as Error).message}`, { cause })
  }
  session.report(`applied ${file.name} in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`, false)
}

/**
 * Repeats the transaction while it does not get its locks, for at most `maxWaitMs`.
 * @throws its error; after the last attempt one that says who has the lock
 */
async function untilGranted(session: MigrationSession, file: MigrationFile): Promise<void> {
  const deadline = performance.now() + session.maxWaitMs
  let holders: readonly Holder[] = []
  for (;;) {
    const isAutovacuum = holders.some(({ application }) => !application)
    const timeoutMs = isAutovacuum ? AUTOVACUUM_TIMEOUT_MS : LOCK_TIMEOUT_MS
    holders = []
    try {
      return await inTransaction(session, file, timeoutMs, (now) => {
        if (now.length > 0) holders = now
      })
    } catch (error) {
      const isLocked = (error as { code?: unknown }).code === LOCK_NOT_AVAILABLE
      if (!isLocked && !isWorthRepeating(error)) throw error
      const reason = holders.length === 0 ? (error as Error).message : `locked by ${describeHolders(holders)}`
      if (performance.now() > deadline)
        throw new Error(
          `${reason}; nothing of it was done within ${session.maxWaitMs / 1000} s; run it again later, or with a longer --wait`,
          { cause: error },
        )
      session.report(`${file.name}: ${reason}; trying again`, true)
      await sleep(pauseMs())
    }
  }
}

/** Of a concurrent file only the row is left to be written. */
async function inTransaction(
  session: MigrationSession,
  file: MigrationFile,
  lockTimeoutMs: number,
  onWait: (holders: readonly Holder[]) => void,
): Promise<void> {
  const { client } = session
  await client.query('BEGIN')
  try {
    await client.query(`SET LOCAL lock_timeout = ${lockTimeoutMs}`)
    await recordApplied(client, file)
    if (!file.isConcurrent) await watched(session, file.sql, onWait)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}
