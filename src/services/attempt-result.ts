/** The result of one attempt: the row to write, and its evidence (RFC 8555 §8.2). Pure. */

import type { ValidationVerdict } from '../../workers/job.ts'
import type { ChallengeAttempt } from '../domain/records.ts'
import {
  boundRecord,
  isTriedAgain,
  retryDelayMs,
  type ValidationPolicy,
  type ValidationRecord,
} from '../domain/validation-attempt.ts'
import { problemDocument } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { AttemptResult } from '../store/challenge-store.ts'
import type { ValidationRequest } from './challenge-triggers.ts'

interface EndedAttempt {
  request: ValidationRequest
  verdict: ValidationVerdict
  policy: ValidationPolicy
  instanceId: number
  /** Milliseconds since 1970. */
  endedAt: number
  /** Milliseconds that the attempt took. */
  took: number
  /** Milliseconds of this attempt and all before it. */
  spentMs: number
}

/** @returns `retryInMs` until the next attempt; undefined when there is none */
export function attemptResult(ended: EndedAttempt): {
  result: AttemptResult
  record: ValidationRecord
  retryInMs: number | undefined
} {
  const { request, verdict, policy, spentMs } = ended
  const tries = request.tries + (verdict.ok ? 0 : 1)
  const again = !verdict.ok && verdict.retryable && isTriedAgain(request.type, tries, spentMs, policy)
  const retryInMs = again ? retryDelayMs(tries, policy) : undefined
  const record = boundRecord(recordOf(ended, again))
  return { result: resultOf(ended, record, retryInMs), record, retryInMs }
}

function recordOf({ request, verdict, endedAt, took }: EndedAttempt, again: boolean): ValidationRecord {
  const { type, requestId, tries } = request
  const when = { attempt: tries + 1, at: renderTimestamp(new Date(endedAt)), ms: took }
  const facts = { type, ...when, requestId, steps: verdict.evidence, ...(verdict.caa && { caa: verdict.caa }) }
  if (verdict.ok) {
    const { validForSeconds } = verdict
    return { ...facts, result: 'success', ...(validForSeconds !== undefined && { validForSeconds }) }
  }
  return { ...facts, result: again ? 'retry' : 'failure', problem: verdict.problem, detail: verdict.detail }
}

function resultOf(ended: EndedAttempt, evidence: ValidationRecord, retryInMs: number | undefined): AttemptResult {
  const { request, verdict, instanceId } = ended
  const { authorizationId, type, tries, thumbprint, isUnclaimed } = request
  const base = { authorizationId, type, instanceId, ...(isUnclaimed && { unclaimed: { thumbprint } }) }
  if (verdict.ok) return { ...base, ...validAttempt(ended, verdict, evidence), outcome: 'valid', evidence }
  const failed = { tries: tries + 1, error: problemDocument(verdict.problem, verdict.detail) }
  return retryInMs === undefined
    ? { ...base, attempt: { status: 'invalid', ...failed }, outcome: 'invalid', evidence }
    : { ...base, attempt: { status: 'processing', ...failed, thumbprint }, outcome: null, retryInMs }
}

/** Times count from the start of the attempt, because the records may have changed since. */
function validAttempt(
  { request, endedAt, took }: EndedAttempt,
  verdict: Extract<ValidationVerdict, { ok: true }>,
  evidence: ValidationRecord,
): { attempt: ChallengeAttempt; validForSeconds?: number } {
  const began = endedAt - took
  const caaChecked = verdict.caa && { caaChecked: renderTimestamp(new Date(began)) }
  const accepted = verdict.isAccepted && { accepted: true as const }
  const attempt: ChallengeAttempt = {
    status: 'valid',
    tries: request.tries,
    validated: evidence.at,
    ...caaChecked,
    ...accepted,
  }
  if (verdict.validForSeconds === undefined) return { attempt }
  return { attempt, validForSeconds: Math.max(0, verdict.validForSeconds - took / 1000) }
}
