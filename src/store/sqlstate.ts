/** Meaning of PostgreSQL's errors for their session, for their statement, and for the caller. */

import pg from './pg.ts'

interface Meaning {
  states: RegExp
  /** The session cannot work any more; a new one may. */
  endsSession?: true
  /** A repeat of the statement may succeed at once. */
  isRepeated?: true
}

/** All of them may pass: callers are told to come back. Every other error is a fault. */
const PASSING: readonly Meaning[] = [
  // The connection broke.
  { states: /^08/, endsSession: true },
  // The server shuts down, has crashed or is starting; the database is gone; the session was idle for too long.
  { states: /^57P/, endsSession: true },
  // The transaction was idle, or lasted, for too long.
  { states: /^25P0[34]$/, endsSession: true },
  // The session is read-only, as all sessions of a standby are.
  { states: /^25006$/, endsSession: true },
  // A standby has no unlogged tables.
  { states: /^0A000$/, endsSession: true },
  // The session has another session's prepared statements: a pooler is between.
  { states: /^(?:26000|42P05)$/, endsSession: true },
  // The statement ran too long.
  { states: /^57014$/ },
  // No disk space, memory or connection is left.
  { states: /^53/ },
  // A lost serialisation, a deadlock.
  { states: /^(?:40001|40P01)$/, isRepeated: true },
  // A lock was not granted in time.
  { states: /^55P03$/ },
]

/** Two repeats: a statement rarely loses to three others in a row. */
export const REPEATS = 2

/** `failing`: read-only, over its quota, or broken. */
export const DISK_TROUBLES = ['full', 'failing'] as const
export type DiskTrouble = (typeof DISK_TROUBLES)[number]

/** Files of PostgreSQL that read and write its data: elsewhere 42501 is a missing right, and XX000 a fault. */
const STORAGE = /^(?:md|fd|smgr|bufmgr|slru|xlog\w*|buffile)\.c$/

/** Says what the error shows of the disk of the database (PostgreSQL's errcode_for_file_access). */
export function diskTroubleOf(error: unknown): DiskTrouble | undefined {
  if (!(error instanceof pg.DatabaseError)) return undefined
  const { code = '', file = '' } = error
  if (code === '53100') return 'full'
  return code === '58030' || (/^(?:42501|XX000)$/.test(code) && STORAGE.test(file)) ? 'failing' : undefined
}

export const isPassingState = (state: string): boolean => meaningOf(state) !== undefined

/** Whether the session cannot be used after this error: it is lost, or whatever it is asked will fail. */
export function endsSession(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return true
  return !isStalePlan(error) && meaningOf(error.code ?? '')?.endsSession === true
}

/** A migration has changed the columns of a prepared statement: it has to be prepared again (pg.ts). */
export function isStalePlan(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.routine === 'RevalidateCachedQuery'
}

/** After a stale plan, once the statements are forgotten. */
export function isWorthRepeating(error: unknown): boolean {
  return isStalePlan(error) || (error instanceof pg.DatabaseError && meaningOf(error.code ?? '')?.isRepeated === true)
}

/** @throws the last error */
export async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let left = REPEATS; ; left--) {
    try {
      return await work()
    } catch (error) {
      if (left === 0 || !isWorthRepeating(error)) throw error
    }
  }
}

const meaningOf = (state: string) => PASSING.find(({ states }) => states.test(state))
