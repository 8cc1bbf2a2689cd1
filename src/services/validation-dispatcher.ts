/**
 * The dispatcher: takes triggered challenges, has them validated by the worker pool, records each attempt.
 *
 * What it knows is in this process on purpose: the database is the truth (a claimed challenge is `processing` there), and
 * what is lost with the process is adopted from there. A challenge is known from its dispatch to its last attempt, and
 * while it is known it is validated once at a time and dispatched in vain.
 *
 * Between instances the claim decides. An attempt begins only under a claim that is fresh, so that no other instance can
 * have taken it over for being stale or for this instance having looked dead; a claim that is not is renewed first, and
 * given up where that fails. What is recorded under a claim that was lost all the same, the store does not take. A first attempt
 * may begin before the claim (services/validation.ts); its record is taken where nobody else, and no other key, has claimed meanwhile.
 */

import type { ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import type { ChallengeAttempt } from '../domain/records.ts'
import { boundRecord, type ValidationRecord } from '../domain/validation-evidence.ts'
import { retryDelayMs, type ValidationPolicy } from '../domain/validation-policy.ts'
import { RecentSet } from '../shared/lib/recent-set.ts'
import { problemDocument } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { AttemptResult, ChallengeStore } from '../store/challenge-store.ts'
import type { AttemptNews, RecordedAttempt, ValidationRequest } from './validation.ts'
import { createValidationQueue, type Keyed } from './validation-queue.ts'

export interface DispatcherEvents {
  /** After each attempt that was recorded. */
  attempted(request: ValidationRequest, record: ValidationRecord): void
  /** The authorization was decided otherwise or the claim lost while the attempt ran, or before it could begin. */
  superseded(request: ValidationRequest): void
  /** No verdict, or it could not be recorded; it is tried again while the challenge is claimed. */
  interrupted(request: ValidationRequest, error: unknown): void
  /** For a front thread that has handed over: after each attempt, recorded or superseded. */
  news(front: number, news: AttemptNews): void
}

export interface ValidationDispatcher {
  /**
   * A challenge that is known already is not taken twice; one that waits for its next attempt has it sooner (RFC 8555
   * §8.2, retries that the client asks for).
   * @param front the thread that wants to know how attempts end
   * @returns false when too much waits: the caller leaves the claim to a later adoption.
   */
  dispatch(request: ValidationRequest, front?: number): boolean
  knows(challenge: Pick<ValidationRequest, 'authorizationId' | 'type'>): boolean
  load(): DispatcherLoad
  /** Takes nothing new, lets running attempts end, and gives up the waiting ones. Resolves when nothing runs. */
  drain(timeoutMs: number): Promise<void>
}

/** Numbers of the moment, for metrics. */
export interface DispatcherLoad {
  /** Waiting for whatever reason, or running. */
  known: number
  running: number
  /** `capacity`, `account`, `target`: the bound it waits for; `backoff`: its next attempt is not due. */
  waiting: Record<'capacity' | 'account' | 'target' | 'backoff', number>
  /** How long the longest wait for a bound has lasted. */
  oldestWaitMs: number
}

export interface DispatchLimits {
  /** Attempts at the same time: overall, of one account, against one target. */
  total: number
  perAccount: number
  perTarget: number
  /** Challenges known at the same time; an account may have a quarter of it. */
  maxWaiting: number
}

export interface DispatcherOptions {
  validate(job: ValidationJob): Promise<ValidationVerdict>
  jobFor(request: ValidationRequest): ValidationJob
  store: Pick<ChallengeStore, 'recordAttempt' | 'renew'>
  policy: ValidationPolicy
  /** Whose claims these are. */
  instanceId: number
  /** Since when other instances can see that this one lives (`performance.now()`): an older claim may be gone. */
  presentSince(): number | undefined
  limits: DispatchLimits
  /** How long a claim is fresh: well below what makes it stale for others. */
  claimFreshMs: number
  events: DispatcherEvents
}

/** A fault on our side says nothing about the target: try again soon, then less often, without counting it as a try. */
const INTERRUPTED_DELAY_MS = 1_000
const INTERRUPTED_MAX_DELAY_MS = 60_000

const ACCOUNT_SHARE = 4

/** Longer than a hand-over is on its way, with the statement before it. */
const DECIDED_MS = 5_000

/** A challenge from its dispatch to its last attempt. */
interface Known extends Keyed {
  request: ValidationRequest
  /** Front threads that have handed it over. */
  fronts: number[]
  /** Milliseconds of `performance.now()`, as all of these. */
  claimedAt: number
  freshUntil: number
  queuedAt: number
  lastEndedAt: number
  interruptions: number
  /** While it waits for its next attempt. */
  timer?: NodeJS.Timeout | undefined
}

export function createValidationDispatcher(options: DispatcherOptions): ValidationDispatcher {
  const { policy, events, limits, instanceId } = options
  const challenges = new Map<string, Known>()
  const perAccount = new Map<string, number>()
  /** Authorizations of which an outcome was recorded lately. */
  const decided = new RecentSet<string>(DECIDED_MS)
  let running = 0
  let draining = false
  let onIdle: (() => void) | undefined

  const queue = createValidationQueue<Known>({
    ownerOf: ({ request }) => request.accountId,
    targetOf: ({ request }) => request.identifier.value,
    perOwner: limits.perAccount,
    perTarget: limits.perTarget,
    concurrency: limits.total,
    async run(known) {
      if (draining) return
      running++
      await attempt(known)
      running--
      if (running === 0) onIdle?.()
    },
  })

  function enqueue(known: Known): void {
    known.timer = undefined
    known.queuedAt = performance.now()
    queue.push(known)
  }

  function later(known: Known, delayMs: number): void {
    if (!draining) known.timer = setTimeout(enqueue, delayMs, known)
  }

  function forget({ key, request }: Known): void {
    challenges.delete(key)
    const left = (perAccount.get(request.accountId) ?? 1) - 1
    if (left === 0) perAccount.delete(request.accountId)
    else perAccount.set(request.accountId, left)
  }

  function tell({ fronts, request: { authorizationId } }: Known, recorded?: RecordedAttempt): void {
    for (const front of fronts) events.news(front, { authorizationId, ...(recorded && { recorded }) })
  }

  function supersede(known: Known): void {
    events.superseded(known.request)
    tell(known)
  }

  /** RFC 8555 §8.2: soon after the client asks, but no sooner than the first retry would have been. */
  function hasten(known: Known): void {
    if (!known.timer || known.interruptions > 0) return
    clearTimeout(known.timer)
    later(known, Math.max(0, known.lastEndedAt + policy.backoffBaseMs - performance.now()))
  }

  async function attempt(known: Known): Promise<void> {
    try {
      const isHeld = isClaimFresh(known) || (await renewClaim(known))
      const next = isHeld ? await attemptOnce(known) : undefined
      known.lastEndedAt = performance.now()
      known.interruptions = 0
      if (next === undefined) forget(known)
      else later(known, next)
    } catch (error) {
      events.interrupted(known.request, error)
      // Whatever kept us from ending it may have cost the claim.
      known.freshUntil = 0
      later(known, Math.min(INTERRUPTED_DELAY_MS * 2 ** known.interruptions++, INTERRUPTED_MAX_DELAY_MS))
    }
  }

  function isClaimFresh({ claimedAt, freshUntil }: Known): boolean {
    return claimedAt > (options.presentSince() ?? Number.POSITIVE_INFINITY) && freshUntil > performance.now()
  }

  async function renewClaim(known: Known): Promise<boolean> {
    const now = performance.now()
    const { authorizationId } = known.request
    const renewed = await options.store.renew({ authorizationId, instanceId })
    if (renewed) refresh(known, now)
    else supersede(known)
    return renewed
  }

  /** @param news milliseconds until the next news of it is expected; the store counts from there as well */
  function refresh(known: Known, now: number, news = 0): void {
    known.claimedAt = now
    known.freshUntil = now + news + options.claimFreshMs
  }

  /** @returns milliseconds until the next attempt; undefined when there is none */
  async function attemptOnce(known: Known): Promise<number | undefined> {
    const { request } = known
    const startedAt = performance.now()
    const verdict = await options.validate(options.jobFor(request))
    const endedAt = Date.now()
    const ms = Math.round(performance.now() - startedAt)
    const at = renderTimestamp(new Date(endedAt))
    const tries = request.tries + (verdict.ok ? 0 : 1)
    const again = !verdict.ok && verdict.retryable && tries <= (policy.maxRetries[request.type] ?? 0)
    const retryInMs = again ? retryDelayMs(tries, policy) : undefined
    const record = boundRecord(recordOf(request, verdict, { attempt: request.tries + 1, at, ms, again }))
    const began = new Date(endedAt - ms)
    const result = resultOf(request, verdict, record, began, retryInMs)
    if (!(await options.store.recordAttempt(result))) {
      supersede(known)
      return undefined
    }
    refresh(known, performance.now(), retryInMs)
    if (result.outcome !== null) decided.add(request.authorizationId)
    events.attempted(request, record)
    const { type, attempt, outcome, validForSeconds } = result
    tell(known, { type, attempt, outcome, isBounded: validForSeconds !== undefined })
    known.request = { ...request, tries, isUnclaimed: false }
    return retryInMs
  }

  function resultOf(
    { authorizationId, type, tries, thumbprint, isUnclaimed }: ValidationRequest,
    verdict: ValidationVerdict,
    evidence: ValidationRecord,
    began: Date,
    retryInMs: number | undefined,
  ): AttemptResult {
    const base = { authorizationId, type, instanceId, ...(isUnclaimed && { unclaimed: { thumbprint } }) }
    if (verdict.ok) {
      // From the begin of the attempt: what the records said after that is not known.
      const caaChecked = verdict.caa && { caaChecked: renderTimestamp(began) }
      const accepted = verdict.isAccepted && { accepted: true as const }
      const attempt: ChallengeAttempt = { status: 'valid', tries, validated: evidence.at, ...caaChecked, ...accepted }
      // Likewise, so that the way back adds nothing to what the verdict allows.
      const bound = verdict.validForSeconds !== undefined && {
        validForSeconds: Math.max(0, verdict.validForSeconds - (Date.now() - began.getTime()) / 1000),
      }
      return { ...base, attempt, outcome: 'valid', evidence, ...bound }
    }
    const failed = { tries: tries + 1, error: problemDocument(verdict.problem, verdict.detail) }
    return retryInMs === undefined
      ? { ...base, attempt: { status: 'invalid', ...failed }, outcome: 'invalid', evidence }
      : { ...base, attempt: { status: 'processing', ...failed, thumbprint }, outcome: null, retryInMs }
  }

  function oldestWaitMs(): number {
    const now = performance.now()
    let oldest = now
    for (const { queuedAt } of queue.heads()) oldest = Math.min(oldest, queuedAt)
    return now - oldest
  }

  return {
    dispatch(request, front) {
      if (draining) return false
      const key = keyOf(request)
      const known = challenges.get(key)
      if (known) {
        if (front !== undefined && !known.fronts.includes(front)) known.fronts.push(front)
        hasten(known)
        return true
      }
      // Triggered on another thread, and on its way while this one was tried and recorded.
      if (decided.has(request.authorizationId)) {
        events.superseded(request)
        if (front !== undefined) events.news(front, { authorizationId: request.authorizationId })
        return true
      }
      const ofAccount = perAccount.get(request.accountId) ?? 0
      if (challenges.size >= limits.maxWaiting || ofAccount >= limits.maxWaiting / ACCOUNT_SHARE) return false
      perAccount.set(request.accountId, ofAccount + 1)
      const now = performance.now()
      const freshUntil = request.isRepeat ? 0 : now + options.claimFreshMs
      const made: Known = {
        key,
        request,
        fronts: front === undefined ? [] : [front],
        claimedAt: now,
        freshUntil,
        queuedAt: now,
        lastEndedAt: now,
        interruptions: 0,
      }
      challenges.set(key, made)
      queue.push(made)
      return true
    },
    knows: (challenge) => challenges.has(keyOf(challenge)),
    load() {
      const { turn, owner, target } = queue.waitingFor()
      let backoff = 0
      for (const { timer } of challenges.values()) if (timer) backoff++
      const waiting = { capacity: turn, account: owner, target, backoff }
      return { known: challenges.size, running, waiting, oldestWaitMs: oldestWaitMs() }
    },
    async drain(timeoutMs) {
      draining = true
      queue.stop()
      for (const { timer } of challenges.values()) clearTimeout(timer)
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

function recordOf(
  { type, requestId }: ValidationRequest,
  verdict: ValidationVerdict,
  { attempt, at, ms, again }: { attempt: number; at: string; ms: number; again: boolean },
): ValidationRecord {
  const facts = { type, attempt, at, ms, requestId, steps: verdict.evidence, ...(verdict.caa && { caa: verdict.caa }) }
  if (verdict.ok) {
    const { validForSeconds } = verdict
    return { ...facts, result: 'success', ...(validForSeconds !== undefined && { validForSeconds }) }
  }
  return { ...facts, result: again ? 'retry' : 'failure', problem: verdict.problem, detail: verdict.detail }
}

function keyOf({ authorizationId, type }: Pick<ValidationRequest, 'authorizationId' | 'type'>): string {
  return `${authorizationId}:${type}`
}
