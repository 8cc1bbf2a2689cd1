/**
 * The dispatcher: takes claimed challenges, has them validated by the worker pool, records each attempt.
 *
 * Its queue is in this process on purpose: the database is the truth (a claimed challenge is `processing` there), and
 * what is lost with the process is adopted from there by the next instance. A challenge that is queued or running twice
 * is validated once.
 */

import Queue from 'better-queue'
import type { ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import type { ChallengeAttempt } from '../domain/records.ts'
import { retryDelayMs, type ValidationPolicy } from '../domain/validation-policy.ts'
import { problemDocument } from '../protocol/problem.ts'
import { renderTimestamp } from '../protocol/timestamp.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import type { ValidationRequest } from './validation.ts'

export interface DispatcherEvents {
  /** After each attempt: `retry` leaves the challenge processing. */
  attempted(
    request: ValidationRequest,
    result: 'success' | 'retry' | 'failure',
    verdict: ValidationVerdict,
    durationMs: number,
  ): void
  /** No verdict, or it could not be recorded; the challenge stays claimed and is tried again. */
  interrupted(request: ValidationRequest, error: unknown): void
}

export interface ValidationDispatcher {
  /** False when too much waits: the caller leaves the claim to a later adoption. */
  dispatch(request: ValidationRequest): boolean
  waiting(): number
  /** Takes nothing new, lets running attempts end, and gives up the waiting ones. Resolves when nothing runs. */
  drain(timeoutMs: number): Promise<void>
}

export interface DispatcherOptions {
  validate(job: ValidationJob): Promise<ValidationVerdict>
  jobFor(request: ValidationRequest): ValidationJob
  store: Pick<AuthorizationStore, 'recordAttempt'>
  policy: ValidationPolicy
  /** Whose claims these are. */
  instanceId: number
  /** Attempts at the same time. */
  concurrency: number
  /** Challenges queued, running or waiting for their next attempt. */
  maxWaiting: number
  events: DispatcherEvents
}

/** A fault on our side says nothing about the target: try again soon, without counting it as a try. */
const INTERRUPTED_DELAY_MS = 1_000

export function createValidationDispatcher(options: DispatcherOptions): ValidationDispatcher {
  const { policy, events } = options
  const known = new Set<string>()
  const timers = new Set<NodeJS.Timeout>()
  let running = 0
  let draining = false
  let onIdle: (() => void) | undefined

  const queue = new Queue<ValidationRequest, void>(
    (request: ValidationRequest, done: () => void) => {
      running++
      void attempt(request).finally(() => {
        running--
        done()
        if (running === 0) onIdle?.()
      })
    },
    { concurrent: options.concurrency, filo: false, maxRetries: 0 },
  )

  function later(request: ValidationRequest, delayMs: number): void {
    if (draining) return
    const timer = setTimeout(() => {
      timers.delete(timer)
      queue.push(request)
    }, delayMs)
    timers.add(timer)
  }

  async function attempt(request: ValidationRequest): Promise<void> {
    if (draining) return
    const startedAt = performance.now()
    try {
      const verdict = await options.validate(options.jobFor(request))
      const tries = request.tries + (verdict.ok ? 0 : 1)
      const retryable = !verdict.ok && verdict.retryable && tries <= policy.maxRetries[request.type]
      const recorded = await record(request, verdict, tries, retryable, startedAt)
      const again = retryable && recorded
      events.attempted(
        request,
        verdict.ok ? 'success' : again ? 'retry' : 'failure',
        verdict,
        performance.now() - startedAt,
      )
      if (again) later({ ...request, tries }, retryDelayMs(tries, policy))
      else known.delete(keyOf(request))
    } catch (error) {
      events.interrupted(request, error)
      later(request, INTERRUPTED_DELAY_MS)
    }
  }

  async function record(
    request: ValidationRequest,
    verdict: ValidationVerdict,
    tries: number,
    again: boolean,
    startedAt: number,
  ): Promise<boolean> {
    const attempted: ChallengeAttempt = verdict.ok
      ? {
          status: 'valid',
          tries,
          validated: renderTimestamp(new Date()),
          // From the begin of the attempt: what the records said after that is not known.
          ...(verdict.caa && { caaChecked: renderTimestamp(new Date(Date.now() - (performance.now() - startedAt))) }),
        }
      : { status: again ? 'processing' : 'invalid', tries, error: problemDocument(verdict.problem, verdict.detail) }
    // False: the authorization was deactivated, decided by another challenge, or has expired meanwhile.
    return options.store.recordAttempt({
      authorizationId: request.authorizationId,
      type: request.type,
      attempt: attempted,
      outcome: verdict.ok ? 'valid' : again ? null : 'invalid',
      instanceId: options.instanceId,
      // Counted from the begin of the attempt, so that the way back adds nothing to what the verdict allows.
      ...(verdict.ok &&
        verdict.validForSeconds !== undefined && {
          validForSeconds: Math.max(0, verdict.validForSeconds - (performance.now() - startedAt) / 1000),
        }),
    })
  }

  return {
    dispatch(request) {
      const key = keyOf(request)
      if (draining) return false
      if (known.has(key)) return true
      if (known.size >= options.maxWaiting) return false
      known.add(key)
      queue.push(request)
      return true
    },
    waiting: () => known.size,
    async drain(timeoutMs) {
      draining = true
      for (const timer of timers) clearTimeout(timer)
      if (running === 0) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs)
        onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    },
  }
}

function keyOf({ authorizationId, type }: ValidationRequest): string {
  return `${authorizationId}:${type}`
}
