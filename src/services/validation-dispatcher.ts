/**
 * The dispatcher takes triggered challenges, has them validated by the worker pool, and records each attempt.
 *
 * A challenge is known from its dispatch to its last attempt, and is validated once at a time. What a crash forgets is
 * adopted from the database, where it is `processing`.
 * Between instances the claim decides: an attempt begins under a fresh claim, or renews it first. The store takes no
 * record under a claim that was lost. A first attempt may begin before the claim (docs/decisions/first-attempt.md).
 */

import type { ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import type { ValidationRecord } from '../domain/validation-evidence.ts'
import type { ValidationPolicy } from '../domain/validation-policy.ts'
import { RecentSet } from '../shared/lib/recent-set.ts'
import type { ChallengeStore } from '../store/challenge-store.ts'
import { attemptResult } from './attempt-result.ts'
import type { AttemptEnded, RecordedAttempt, ValidationRequest } from './validation.ts'
import { ValidationQueue } from './validation-queue.ts'

export interface DispatcherEvents {
  /** After each attempt that was recorded. */
  attempted(request: ValidationRequest, record: ValidationRecord): void
  /** The authorization was decided otherwise or the claim lost while the attempt ran, or before it could begin. */
  superseded(request: ValidationRequest): void
  /** No verdict, or it could not be recorded; it is tried again while the challenge is claimed. */
  interrupted(request: ValidationRequest, error: unknown): void
  /** For a front thread that has handed over: after each attempt, recorded or superseded. */
  news(front: number, news: AttemptEnded): void
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
interface Known {
  /** Of authorization and type: unique among what is known. */
  key: string
  request: ValidationRequest
  /** Front threads that have handed it over. */
  fronts: number[]
  /** Milliseconds of `performance.now()`, as all of these. */
  claimedAt: number
  freshUntil: number
  queuedAt: number
  lastEndedAt: number
  interruptions: number
  /** Milliseconds that its attempts took together. */
  spentMs: number
  /** While it waits for its next attempt. */
  timer?: NodeJS.Timeout | undefined
}

export class ValidationDispatcher {
  readonly #options: DispatcherOptions
  readonly #queue: ValidationQueue<Known>
  readonly #challenges = new Map<string, Known>()
  readonly #perAccount = new Map<string, number>()
  /** Authorizations of which an outcome was recorded lately. */
  readonly #decided = new RecentSet<string>(DECIDED_MS)
  #running = 0
  #draining = false
  #onIdle: (() => void) | undefined

  constructor(options: DispatcherOptions) {
    this.#options = options
    const { limits } = options
    this.#queue = new ValidationQueue<Known>({
      ownerOf: ({ request }) => request.accountId,
      targetOf: ({ request }) => request.identifier.value,
      perOwner: limits.perAccount,
      perTarget: limits.perTarget,
      concurrency: limits.total,
      run: (known) => this.#run(known),
    })
  }

  /**
   * A challenge that is known already is not taken twice; one that waits for its next attempt has it sooner (RFC 8555
   * §8.2, retries that the client asks for).
   * @param front the thread that wants to know how attempts end
   * @returns false when too much waits: the caller leaves the claim to a later adoption.
   */
  dispatch(request: ValidationRequest, front?: number): boolean {
    if (this.#draining) return false
    const known = this.#challenges.get(keyOf(request))
    if (known) {
      if (front !== undefined && !known.fronts.includes(front)) known.fronts.push(front)
      this.#hasten(known)
      return true
    }
    // Triggered on another thread, and on its way while this one was tried and recorded.
    if (this.#decided.has(request.authorizationId)) {
      this.#options.events.superseded(request)
      if (front !== undefined) this.#options.events.news(front, { authorizationId: request.authorizationId })
      return true
    }
    return this.#admit(request, front)
  }

  knows(challenge: Pick<ValidationRequest, 'authorizationId' | 'type'>): boolean {
    return this.#challenges.has(keyOf(challenge))
  }

  load(): DispatcherLoad {
    const { turn, owner, target } = this.#queue.waitingFor()
    let backoff = 0
    for (const { timer } of this.#challenges.values()) if (timer) backoff++
    const waiting = { capacity: turn, account: owner, target, backoff }
    const now = performance.now()
    let oldest = now
    for (const { queuedAt } of this.#queue.heads()) oldest = Math.min(oldest, queuedAt)
    return { known: this.#challenges.size, running: this.#running, waiting, oldestWaitMs: now - oldest }
  }

  /** Takes nothing new, lets running attempts end, and gives up the waiting ones. Resolves when nothing runs. */
  async drain(timeoutMs: number): Promise<void> {
    this.#draining = true
    this.#queue.stop()
    for (const { timer } of this.#challenges.values()) clearTimeout(timer)
    if (this.#running === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      this.#onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #admit(request: ValidationRequest, front: number | undefined): boolean {
    const { limits, claimFreshMs } = this.#options
    const ofAccount = this.#perAccount.get(request.accountId) ?? 0
    if (this.#challenges.size >= limits.maxWaiting || ofAccount >= limits.maxWaiting / ACCOUNT_SHARE) return false
    this.#perAccount.set(request.accountId, ofAccount + 1)
    const now = performance.now()
    const known: Known = {
      key: keyOf(request),
      request,
      fronts: front === undefined ? [] : [front],
      claimedAt: now,
      freshUntil: request.isRepeat ? 0 : now + claimFreshMs,
      queuedAt: now,
      lastEndedAt: now,
      interruptions: 0,
      spentMs: 0,
    }
    this.#challenges.set(known.key, known)
    this.#queue.push(known)
    return true
  }

  async #run(known: Known): Promise<void> {
    if (this.#draining) return
    this.#running++
    await this.#attempt(known)
    this.#running--
    if (this.#running === 0) this.#onIdle?.()
  }

  #enqueue(known: Known): void {
    known.timer = undefined
    known.queuedAt = performance.now()
    this.#queue.push(known)
  }

  #later(known: Known, delayMs: number): void {
    if (!this.#draining) known.timer = setTimeout(() => this.#enqueue(known), delayMs)
  }

  /** RFC 8555 §8.2: soon after the client asks, but no sooner than the first retry would have been. */
  #hasten(known: Known): void {
    if (!known.timer || known.interruptions > 0) return
    clearTimeout(known.timer)
    this.#later(known, Math.max(0, known.lastEndedAt + this.#options.policy.backoffBaseMs - performance.now()))
  }

  #forget({ key, request }: Known): void {
    this.#challenges.delete(key)
    const left = (this.#perAccount.get(request.accountId) ?? 1) - 1
    if (left === 0) this.#perAccount.delete(request.accountId)
    else this.#perAccount.set(request.accountId, left)
  }

  #tell({ fronts, request: { authorizationId } }: Known, recorded?: RecordedAttempt): void {
    for (const front of fronts) this.#options.events.news(front, { authorizationId, ...(recorded && { recorded }) })
  }

  #supersede(known: Known): void {
    this.#options.events.superseded(known.request)
    this.#tell(known)
  }

  async #attempt(known: Known): Promise<void> {
    try {
      const isHeld = this.#isClaimFresh(known) || (await this.#renewClaim(known))
      const next = isHeld ? await this.#attemptOnce(known) : undefined
      known.lastEndedAt = performance.now()
      known.interruptions = 0
      if (next === undefined) this.#forget(known)
      else this.#later(known, next)
    } catch (error) {
      this.#options.events.interrupted(known.request, error)
      // Whatever kept us from ending it may have cost the claim.
      known.freshUntil = 0
      this.#later(known, Math.min(INTERRUPTED_DELAY_MS * 2 ** known.interruptions++, INTERRUPTED_MAX_DELAY_MS))
    }
  }

  #isClaimFresh({ claimedAt, freshUntil }: Known): boolean {
    return claimedAt > (this.#options.presentSince() ?? Number.POSITIVE_INFINITY) && freshUntil > performance.now()
  }

  async #renewClaim(known: Known): Promise<boolean> {
    const now = performance.now()
    const { store, instanceId } = this.#options
    const renewed = await store.renew({ authorizationId: known.request.authorizationId, instanceId })
    if (renewed) this.#refresh(known, now)
    else this.#supersede(known)
    return renewed
  }

  /** @param nextInMs until the next record of it is expected; the store counts from there as well */
  #refresh(known: Known, now: number, nextInMs = 0): void {
    known.claimedAt = now
    known.freshUntil = now + nextInMs + this.#options.claimFreshMs
  }

  /** @returns milliseconds until the next attempt; undefined when there is none */
  async #attemptOnce(known: Known): Promise<number | undefined> {
    const { request } = known
    const { validate, jobFor, store, policy, instanceId, events } = this.#options
    const startedAt = performance.now()
    const verdict = await validate(jobFor(request))
    const took = Math.round(performance.now() - startedAt)
    known.spentMs += took
    const { result, record, retryInMs } = attemptResult({
      request,
      verdict,
      policy,
      instanceId,
      endedAt: Date.now(),
      took,
      spentMs: known.spentMs,
    })
    if (!(await store.recordAttempt(result))) {
      this.#supersede(known)
      return undefined
    }
    this.#refresh(known, performance.now(), retryInMs)
    if (result.outcome !== null) this.#decided.add(request.authorizationId)
    events.attempted(request, record)
    const { type, attempt, outcome, validForSeconds } = result
    this.#tell(known, { type, attempt, outcome, isBounded: validForSeconds !== undefined })
    known.request = { ...request, tries: attempt.tries, isUnclaimed: false }
    return retryInMs
  }
}

function keyOf({ authorizationId, type }: Pick<ValidationRequest, 'authorizationId' | 'type'>): string {
  return `${authorizationId}:${type}`
}
