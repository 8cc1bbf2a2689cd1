/**
 * Admission control of one front thread: what it measures and which requests it refuses.
 *
 * It measures how late its timer runs, and how many database requests are under way and answered (`overload.ts`).
 * Without load a request costs one comparison. From 0.3 of the accepted delay, or 0.9 utilization, requests are counted
 * by address. Then heavy addresses are served after others and refused first.
 */

import type { ResourceName } from '../shared/protocol/urls.ts'
import { addressKey, DecayingSketch, HeavyAddresses, type SketchKey } from './abuse-budget.ts'
import {
  CALM,
  type EpisodeEvents,
  expectedDelayMs,
  isTurnedAway,
  type LimitedResource,
  newOrderPressure,
  nextRate,
  nextState,
  OverloadEpisode,
  readingDelayMs,
  retryAfterSeconds,
  type ShedReason,
  TICK_MS,
  WORK_CLASS,
} from './overload.ts'

export interface Refusal {
  reason: ShedReason
  retryAfterSeconds: number
  /** A client that retries at once makes a prompt refusal expensive. */
  isLate: boolean
}

/** Requests that wait for the database only, not for a signer or a name server. */
const MEASURED: ReadonlySet<string> = new Set<ResourceName>([
  'account',
  'accountOrders',
  'newOrder',
  'newAuthz',
  'renewalInfo',
  'order',
  'authorization',
  'challenge',
  'certificate',
])

const WATCHED = 0.3
/** Pressure above which new orders wait for requests of orders under way. */
const QUEUED = 0.3
/** Utilization above which an event loop counts as busy. */
const BUSY = 0.9
/** Added for a request that waits, so that a slowed-down address still counts as heavy. */
const WAITED = 3
/** One request in eight is counted, which is enough at thousands a second. */
const SAMPLING = 8
/** The last second or two decide which address is heavy. */
const USAGE_HALF_LIFE_MS = 1000
/** Probes of the last second or two that no prober sends: its address is never heavy for them. */
const PROBES_OF_A_PROBER = 100
/** Smaller shares are left out when users are counted. */
const LEAST_SHARE = 1 / 1000
/** Refusals sent at once in a tick: at 20 µs each, a twelfth of a thread's time. */
const PROMPT_REFUSALS = 200

export class Admission {
  readonly #targetDelayMs: number
  readonly #addresses = new HeavyAddresses(USAGE_HALF_LIFE_MS)
  readonly #probes = new DecayingSketch(USAGE_HALF_LIFE_MS)
  readonly #episode: OverloadEpisode
  #now = performance.now()
  #hasTicked = false

  #state = CALM
  #isWatching = false
  #hasHeavy = false
  #sampled = 0

  #underWay = 0
  #answered = 0
  #rate = 0
  #readingMs = 0
  #requestsBefore = 0

  #newOrdersWaiting = 0
  #newOrdersBegun = 0
  #newOrderRate = 0

  constructor(targetDelayMs: number, events: EpisodeEvents) {
    this.#targetDelayMs = targetDelayMs
    this.#episode = new OverloadEpisode(events)
  }

  /** While false, no address is counted. */
  get isWatching(): boolean {
    return this.#isWatching
  }

  /** While false, `refuse` refuses nothing. */
  get isOverloaded(): boolean {
    return this.#state.isOverloaded
  }

  /** While requests queue, new orders wait for requests of orders under way. */
  get hasQueue(): boolean {
    return this.#newOrdersWaiting > 0 || (this.#hasTicked && this.#pressure() > QUEUED)
  }

  /** True for one request in eight; `count` counts it eightfold. */
  isSample(): boolean {
    this.#sampled = (this.#sampled + 1) % SAMPLING
    return this.#sampled === 0
  }

  count(address: string, isProbe = false): void {
    this.#count(addressKey(address), SAMPLING, isProbe)
  }

  #count(key: SketchKey, amount: number, isProbe: boolean): void {
    this.#addresses.count(key, amount, this.#now)
    if (isProbe) this.#probes.add(key, amount, this.#now)
  }

  /** A client behind the address of a prober must not cost the prober its answer. */
  #isHeavy(key: SketchKey, isProbe: boolean): boolean {
    if (!this.#hasHeavy || !this.#addresses.isHeavy(key, this.#now)) return false
    return !isProbe || this.#probes.amount(key, this.#now) > PROBES_OF_A_PROBER
  }

  /** Counts the request as well. @returns undefined when the request is admitted */
  refuse(resource: LimitedResource, address: string): Refusal | undefined {
    if (!this.#state.isOverloaded) return undefined
    const key = addressKey(address)
    const isProbe = resource === 'probe'
    this.#count(key, 1, isProbe)
    const isHeavy = this.#isHeavy(key, isProbe)
    const pressure = WORK_CLASS[resource] === 'new' ? this.#pressureOnNewOrders() : this.#pressure()
    if (!isTurnedAway(pressure, resource, isHeavy)) return undefined
    const reason = isHeavy ? 'heavy_address' : 'delay'
    this.#episode.refused(reason)
    return {
      reason,
      retryAfterSeconds: retryAfterSeconds(this.#episode.ageMs(this.#now), Math.random()),
      isLate: isHeavy || this.#episode.refusedInTick('delay') > PROMPT_REFUSALS,
    }
  }

  /** Whether requests of this address are served behind others. Counts the wait as well. */
  isServedLast(address: string, isProbe = false): boolean {
    if (!this.#hasHeavy) return false
    const key = addressKey(address)
    if (!this.#isHeavy(key, isProbe)) return false
    this.#addresses.count(key, WAITED, this.#now)
    return true
  }

  newOrderWaits(): void {
    this.#newOrdersWaiting++
  }

  waitingNewOrderBegins(): void {
    this.#newOrdersWaiting--
    this.#newOrdersBegun++
  }

  /** @param resource of a request that is not answered in its first turn */
  began(resource: string): void {
    if (MEASURED.has(resource)) this.#underWay++
  }

  ended(resource: string): void {
    if (!MEASURED.has(resource)) return
    this.#underWay--
    this.#answered++
  }

  /** A measured request waits for a validation, which says nothing about the database. */
  paused(): void {
    this.#underWay--
  }

  resumed(): void {
    this.#underWay++
  }

  /**
   * Called every `TICK_MS`.
   * @param requests total since the start, of all kinds
   * @param utilization of the event loop since the last tick, 0 to 1
   */
  tick(now: number, requests: number, utilization: number): void {
    this.#measure(now, requests)
    const pressure = this.#pressureOnNewOrders()
    this.#state = nextState(this.#state, pressure)
    const watchedFrom = this.#isWatching ? WATCHED / 2 : WATCHED
    this.#isWatching = this.#state.isOverloaded || utilization > BUSY || pressure > watchedFrom
    this.#hasHeavy = this.#isWatching && this.#addresses.look(now, LEAST_SHARE)
    this.#episode.tick(now, () => ({
      delayMs: Math.round(Math.max(this.#delayMs(), this.#newOrderWaitMs())),
      inFlight: this.#underWay + this.#newOrdersWaiting,
    }))
  }

  #measure(now: number, requests: number): void {
    this.#readingMs = readingDelayMs(Math.max(0, now - this.#now - TICK_MS), requests - this.#requestsBefore)
    this.#requestsBefore = requests
    this.#now = now
    this.#rate = nextRate(this.#rate, this.#answered)
    this.#answered = 0
    this.#newOrderRate = nextRate(this.#newOrderRate, this.#newOrdersBegun)
    this.#newOrdersBegun = 0
    this.#hasTicked = true
  }

  #delayMs(): number {
    return Math.max(this.#readingMs, expectedDelayMs(this.#underWay, this.#rate))
  }

  #newOrderWaitMs(): number {
    return expectedDelayMs(this.#newOrdersWaiting, this.#newOrderRate)
  }

  #pressure(): number {
    return this.#delayMs() / this.#targetDelayMs
  }

  #pressureOnNewOrders(): number {
    return Math.max(this.#pressure(), newOrderPressure(this.#newOrderWaitMs(), this.#targetDelayMs))
  }
}
