/** The problems of a busy, overloaded or broken server, each with its Retry-After. */

import { PRESSURE_RETRY_AFTER, type RefusingTier } from '../services/shared-state.ts'
import { BatcherFull } from '../shared/lib/batcher.ts'
import { TooManyWaiting } from '../shared/lib/caching.ts'
import { Problem } from '../shared/protocol/problem.ts'

/** A full batcher drains within a second; an unreachable database takes longer to return. */
const BUSY_RETRY_SECONDS = 1
const UNAVAILABLE_RETRY_SECONDS = 5

/** The head of a request may have 16 KiB. Ours need 300; a provider sends the browser back with a code that nothing bounds. */
export const MAX_URL_BYTES = 14_500
export const URL_TOO_LONG = new Problem('malformed', `a URL may have at most ${MAX_URL_BYTES} bytes`, { status: 414 })

export const PRESSURE_PROBLEMS = Object.fromEntries(
  Object.entries(PRESSURE_RETRY_AFTER).map(([tier, seconds]) => [
    tier,
    busy(`the server's database connections are under pressure; try again in ${seconds} seconds`, seconds),
  ]),
) as Record<RefusingTier, Problem>

/** Cached by Retry-After: creating an error costs more than rendering its reply. */
const overloadProblems: Problem[] = []

export function overloadProblem(seconds: number): Problem {
  overloadProblems[seconds] ??= busy(`the server has more to do than it can; try again in ${seconds} seconds`, seconds)
  return overloadProblems[seconds]
}

/** What an error says of the server, as the layers below tell it. */
export interface KnownErrors {
  /** Another thread has too much to do, or is starting. */
  isBusy(error: unknown): boolean
  /** Why the database does not do its work; undefined where the error says something else. */
  databaseTrouble(error: unknown): string | undefined
}

/** @returns undefined when the error is a fault to log, not a busy server */
export function knownProblem(error: unknown, { isBusy }: KnownErrors): Problem | undefined {
  if (error instanceof Problem) return error
  if (error instanceof BatcherFull || error instanceof TooManyWaiting || isBusy(error))
    return busy('the server is busy; try again soon', BUSY_RETRY_SECONDS)
  return undefined
}

/**
 * Gives a sentence, a request id to quote, and perhaps Retry-After. The error itself goes only to
 * the log.
 */
export function failureProblem(error: unknown, requestId: string, { databaseTrouble }: KnownErrors): Problem {
  const trouble = databaseTrouble(error)
  if (trouble !== undefined) return busy(`${trouble}; try again soon`, UNAVAILABLE_RETRY_SECONDS)
  return new Problem('serverInternal', `the server failed; quote request ${requestId} to its operator`)
}

function busy(detail: string, retryAfterSeconds: number): Problem {
  return new Problem('serverInternal', detail, { status: 503, retryAfterSeconds })
}
