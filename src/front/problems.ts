/** The problems of a busy, overloaded or broken server, each with its Retry-After. */

import { ADMIN_ERRORS, AdminError, type AdminErrorCode } from '../domain/admin-error.ts'
import { ActorError } from '../runtime/errors.ts'
import { PRESSURE_RETRY_AFTER, type RefusingTier } from '../services/shared-state.ts'
import { BatcherFull } from '../shared/lib/batcher.ts'
import { TooManyWaiting } from '../shared/lib/caching.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { isUnavailable } from '../store/database.ts'

/** A full batcher drains within a second; an unreachable database takes longer to return. */
const BUSY_RETRY_SECONDS = 1
const UNAVAILABLE_RETRY_SECONDS = 5

/** RFC 9110 §4.1 recommends at least 8,000; ours need at most 300. */
export const MAX_URL_BYTES = 8_000
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

/** @returns undefined when the error is a fault to log, not a busy server */
export function knownProblem(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error
  if (error instanceof BatcherFull || error instanceof ActorError || error instanceof TooManyWaiting)
    return busy('the server is busy; try again soon', BUSY_RETRY_SECONDS)
  return undefined
}

/**
 * Gives a sentence, a request id to quote, and perhaps Retry-After. The error itself goes only to
 * the log.
 */
export function failureProblem(error: unknown, requestId: string): Problem {
  if (isUnavailable(error)) return busy('the database is not reachable; try again soon', UNAVAILABLE_RETRY_SECONDS)
  return new Problem('serverInternal', `the server failed; quote request ${requestId} to its operator`)
}

/** The Admin API's form of a refusal. */
export function asAdminError({ status, message, options: { retryAfterSeconds } }: Problem): AdminError {
  const codes = Object.keys(ADMIN_ERRORS) as AdminErrorCode[]
  const code = codes.find((one) => ADMIN_ERRORS[one] === status) ?? 'invalid_request'
  return new AdminError(code, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
}

function busy(detail: string, retryAfterSeconds: number): Problem {
  return new Problem('serverInternal', detail, { status: 503, retryAfterSeconds })
}
