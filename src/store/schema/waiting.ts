/** Looks up on a second connection who keeps a statement waiting, and how far the build of an index has come. */

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from '../pg.ts'

/** Sentences for the operator. One that `isPassing` is replaced by the next. */
export type Report = (sentence: string, isPassing: boolean) => void

/** Where each sentence is a line, one passing sentence is shown in this time. */
const EVERY_MS = 10_000

/** For a log, and for output that is no terminal: a look every quarter of a second would fill it. */
export function sparingly(say: (sentence: string) => void): Report {
  let last = { sentence: '', at: Number.NEGATIVE_INFINITY }
  return (sentence, isPassing) => {
    const now = performance.now()
    if (isPassing && (sentence === last.sentence || now - last.at < EVERY_MS)) return
    last = { sentence, at: now }
    say(sentence)
  }
}

const LOOK_MS = 250

/** A transaction that has the lock, or that waits for it longer. */
export interface Holder {
  pid: number
  application: string | null
  /** Null where the role may not see it. */
  seconds: number | null
}

interface Progress {
  phase: string
  /** 0 to 1, of this phase. */
  share: number | null
}

// Also the transactions that CREATE INDEX CONCURRENTLY waits for: their locks are in pg_locks like others.
const HOLDERS = `
  SELECT a.pid, a.application_name AS application,
         extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.query_start))::float8 AS seconds
    FROM unnest(pg_blocking_pids($1)) AS b (pid) JOIN pg_stat_activity a ON a.pid = b.pid
   ORDER BY a.xact_start`

// Blocks while the table or the index is read, rows while the index is written.
const PROGRESS = `
  SELECT phase, CASE WHEN tuples_total > 0 THEN tuples_done::float8 / tuples_total
                     WHEN blocks_total > 0 THEN blocks_done::float8 / blocks_total END AS share
    FROM pg_stat_progress_create_index WHERE pid = $1`

export interface MigrationSession {
  client: pg.Client
  /** Sees what `client` waits for. */
  beside: pg.Client
  /** The process of `client` at the server. */
  pid: number
  /** How long a migration may try to get its locks. */
  maxWaitMs: number
  report: Report
}

/**
 * Runs a statement, and looks every quarter of a second what it waits for.
 * @param onLook gets whom it waits for, and the progress of an index for people, or ''
 */
export async function watched(
  { client, beside, pid }: MigrationSession,
  text: string,
  onLook: (holders: readonly Holder[], progress: string) => void,
): Promise<void> {
  const running = { isOver: false }
  const statement = client.query(text).finally(() => {
    running.isOver = true
  })
  const watching = (async () => {
    for (;;) {
      await Promise.race([statement, sleep(LOOK_MS)])
      if (running.isOver) return
      const holders = (await beside.query<Holder>(HOLDERS, [pid])).rows
      const [build] = (await beside.query<Progress>(PROGRESS, [pid])).rows
      onLook(holders, build ? describeProgress(build) : '')
    }
  })()
  // Without its connection nothing is shown. The statement continues, and its own failure decides.
  await Promise.allSettled([watching])
  await statement
}

export const describeHolders = (holders: readonly Holder[]): string => holders.map(describeHolder).join(', ')

function describeHolder({ pid, application, seconds }: Holder): string {
  const age = seconds === null ? '' : `, for ${seconds.toFixed(0)} s in a transaction`
  return `process ${pid} (${application || 'no application name'}${age})`
}

function describeProgress({ phase, share }: Progress): string {
  return share === null ? phase : `${phase} ${Math.floor(share * 100)} %`
}
