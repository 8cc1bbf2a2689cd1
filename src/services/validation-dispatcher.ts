/**
 * The dispatcher sends triggered challenges to the worker pool and records each attempt.
 *
 * A challenge is known from its dispatch to its last attempt, with one attempt at a time. After a
 * crash, challenges that are `processing` are adopted from the database.
 * An attempt begins under a fresh claim, or renews it first; the store rejects records under a lost
 * claim. A first attempt may begin before the claim (docs/decisions/first-attempt.md).
 */

import type { ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import type { ValidationPolicy, ValidationRecord } from '../domain/validation-attempt.ts'
import { RecentSet } from '../shared/lib/caching.ts'
import { FairQueue, type FairQueueOptions, type WaitReason } from '../shared/lib/fair-queue.ts'
import { IdleSignal } from '../shared/lib/time-limit.ts'
import type { ChallengeStore } from '../store/challenge-store.ts'
import { attemptResult } from './attempt-result.ts'
import type { AttemptEnded, RecordedAttempt, ValidationRequest } from './challenge-triggers.ts'

export interface DispatcherEvents {
  /** After each attempt that was recorded. */
  attempted(request: ValidationRequest, record: ValidationRecord): void
  /** The authorization was decided elsewhere, or the claim lost, before or during the attempt. */
  superseded(request: ValidationRequest): void
  /** No verdict, or no record of it; it is retried while the challenge is claimed. */
  interrupted(request: ValidationRequest, error: unknown): void
  /** For each front that handed the challenge over, after each recorded or superseded attempt. */
  ended(front: number, attempt: AttemptEnded): void
}

/** Current numbers, for metrics. */
export interface DispatcherLoad {
  /** Waiting or running. */
  known: number
  running: number
  /** By the limit that blocks them; `backoff` counts those whose next attempt is not due. */
  waiting: Record<'capacity' | 'account' | 'target' | 'backoff', number>
  /** Age of the longest wait for a limit. */
  oldestWaitMs: number
}

export interface DispatchLimits {
  /** Concurrent attempts: in total, of one account, against one target. */
  total: number
  perAccount: number
  perTarget: number
  /** Challenges known at the same time; an account may have a quarter of them. */
  maxWaiting: number
}

export interface DispatcherOptions {
  validate(job: ValidationJob): Promise<ValidationVerdict>
  jobFor(request: ValidationRequest): ValidationJob
  store: Pick<ChallengeStore, 'recordAttempt' | 'renew'>
  policy: ValidationPolicy
  instanceId: number
  /** Since when other instances see this one as alive; an older claim may be lost. */
  presentSince(): number | undefined
  limits: DispatchLimits
  /** How long a claim is fresh; well below the age at which others take it over. */
  claimFreshMs: number
  events: DispatcherEvents
}

/** A fault of ours is retried soon, then less often, and does not count as a try. */
const INTERRUPTED_DELAY_MS = 1_000
const INTERRUPTED_MAX_DELAY_MS = 60_000

const ACCOUNT_SHARE = 4

/** Longer than a hand-over takes, with the statement before it. */
const DECIDED_MS = 5_000

/** A challenge from its dispatch to its last attempt. */
interface Known {
  /** Authorization and type. */
  key: string
  request: ValidationRequest
  /** Front threads that have handed it over. */
  fronts: number[]
  /** This and the next three: milliseconds of `performance.now()`. */
  claimedAt: number
  freshUntil: number
  queuedAt: number
  lastEndedAt: number
  interruptions: number
  /** Milliseconds of all its attempts. */
  spentMs: number
  /** While it waits for its next attempt. */
  timer?: NodeJS.Timeout | undefined
}

export class ValidationDispatcher {
  readonly #options: DispatcherOptions
  readonly #queue: ValidationQueue<Known>
  readonly #challenges = new Map<string, Known>()
  readonly #perAccount = new Map<string, number>()
  /** Authorizations with a recently recorded outcome. */
  readonly #decided = new RecentSet<string>(DECIDED_MS)
  readonly #idle = new IdleSignal()
  #running = 0
  #draining = false

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
   * A known challenge is not added twice. One that waits for its next attempt gets it sooner, as
   * the client asks for a retry (RFC 8555 §8.2).
   * @param front the thread to notify of ended attempts
   * @returns false when too many wait; the caller leaves the claim to a later adoption
   */
  dispatch(request: ValidationRequest, front?: number): boolean {
    if (this.#draining) return false
    const known = this.#challenges.get(keyOf(request))
    if (known) {
      if (front !== undefined && !known.fronts.includes(front)) known.fronts.push(front)
      this.#hasten(known)
      return true
    }
    // Another thread triggered it before this outcome was recorded.
    if (this.#decided.has(request.authorizationId)) {
      this.#options.events.superseded(request)
      if (front !== undefined) this.#options.events.ended(front, { authorizationId: request.authorizationId })
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

  /** Rejects new challenges, drops waiting ones, and resolves when running attempts have ended. */
  async drain(timeoutMs: number): Promise<void> {
    this.#draining = true
    this.#queue.stop()
    for (const { timer } of this.#challenges.values()) clearTimeout(timer)
    if (this.#running > 0) await this.#idle.wait(timeoutMs)
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
    if (this.#running === 0) this.#idle.notify()
  }

  #enqueue(known: Known): void {
    known.timer = undefined
    known.queuedAt = performance.now()
    this.#queue.push(known)
  }

  #later(known: Known, delayMs: number): void {
    if (!this.#draining) known.timer = setTimeout(() => this.#enqueue(known), delayMs)
  }

  /** RFC 8555 §8.2: soon after the client asks, but not before the first retry interval ends. */
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

  #report({ fronts, request: { authorizationId } }: Known, recorded?: RecordedAttempt): void {
    for (const front of fronts) this.#options.events.ended(front, { authorizationId, ...(recorded && { recorded }) })
  }

  #supersede(known: Known): void {
    this.#options.events.superseded(known.request)
    this.#report(known)
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
      // The fault may have lasted longer than the claim.
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

  /** @param nextInMs until the next record is expected; the store also counts from then */
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
    this.#report(known, { type, attempt, outcome, isBounded: validForSeconds !== undefined })
    known.request = { ...request, tries: attempt.tries, isUnclaimed: false }
    return retryInMs
  }
}

function keyOf({ authorizationId, type }: Pick<ValidationRequest, 'authorizationId' | 'type'>): string {
  return `${authorizationId}:${type}`
}

export interface ValidationQueueOptions<T> extends FairQueueOptions<T> {
  concurrency: number
  /** Resolves when the item has ended, and never rejects. */
  run(item: T): Promise<void>
}

/** Starts every validation that may run (docs/decisions/validation-queue.md). */
export class ValidationQueue<T> {
  readonly #fair: FairQueue<T>
  readonly #options: ValidationQueueOptions<T>
  #isStopped = false

  constructor(options: ValidationQueueOptions<T>) {
    this.#fair = new FairQueue(options)
    this.#options = options
  }

  push(item: T): void {
    this.#fair.push(item)
    this.#startWhatMay()
  }

  waitingFor(): Record<WaitReason, number> {
    return this.#fair.waitingFor()
  }

  /** Includes the item that has waited longest. */
  heads(): Iterable<T> {
    return this.#fair.heads()
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true
  }

  #startWhatMay(): void {
    while (!this.#isStopped && this.#fair.out < this.#options.concurrency) {
      const item = this.#fair.take()
      if (item === undefined) return
      void this.#run(item)
    }
  }

  async #run(item: T): Promise<void> {
    await this.#options.run(item)
    this.#fair.giveBack(item)
    this.#startWhatMay()
  }
}
