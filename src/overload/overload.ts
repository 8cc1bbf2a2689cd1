/**
 * When a front thread refuses requests, and which (docs/operations/limits.md). Pure: no clock, no
 * randomness.
 *
 * 1. Expected delay by Little's law: requests under way / rate of answers. It covers processor,
 *    disk and database without knowing the machine's capacity.
 * 2. Pressure: expected delay / the delay the operator accepts.
 * 3. Overload begins when the pressure stays above 1 for `PRESSED_TICKS`, so a burst is none.
 * 4. Then each request is refused by the pressure of the moment, its work class and its address.
 *    New orders go first: an order helps its client only if its other six requests succeed.
 *    Heavy addresses are refused earlier in every class.
 * 5. While requests queue, new orders wait for requests of orders under way (`newOrdersBeside`).
 *    So an order waits once, before it starts, and not in each of its seven requests.
 */

import type { ResourceName } from '../shared/protocol/urls.ts'

/** `aside` belongs to no order under way; `ongoing` does; `memory` costs no more than the refusal would. */
type WorkClass = 'new' | 'aside' | 'ongoing' | 'memory' | 'probe'

/** Beside ACME there are health, metrics and the open part of the Admin API: `probe`. */
export type LimitedResource = ResourceName | 'probe'

export const WORK_CLASS = {
  newAccount: 'new',
  newOrder: 'new',
  newAuthz: 'new',
  account: 'aside',
  accountOrders: 'aside',
  keyChange: 'aside',
  renewalInfo: 'aside',
  order: 'ongoing',
  finalize: 'ongoing',
  authorization: 'ongoing',
  challenge: 'ongoing',
  certificate: 'ongoing',
  // A compromised key must be revocable under overload.
  revokeCert: 'ongoing',
  directory: 'memory',
  newNonce: 'memory',
  crl: 'memory',
  roots: 'memory',
  probe: 'probe',
} as const satisfies Record<LimitedResource, WorkClass>

/** Pressure above which requests of a class are refused, for normal and for heavy addresses. */
const REFUSED_FROM = {
  new: { fair: 1, heavy: 0.5 },
  aside: { fair: 2, heavy: 0.75 },
  ongoing: { fair: 10, heavy: 1 },
  // The delay is measured on requests for the database, and is without end while that hangs.
  memory: { fair: Number.POSITIVE_INFINITY, heavy: 1 },
  probe: { fair: Number.POSITIVE_INFINITY, heavy: 0.5 },
} as const satisfies Record<WorkClass, { fair: number; heavy: number }>

/** Requests from new-order to the certificate, when nothing is polled twice. */
const REQUESTS_OF_AN_ORDER = 7

/** A new order waits once for all its requests, so it may wait that many target delays. */
export function newOrderPressure(delayMs: number, targetDelayMs: number): number {
  return delayMs / (REQUESTS_OF_AN_ORDER * targetDelayMs)
}

/**
 * How many waiting new orders may begin after so many requests of orders under way.
 * An order brings six of them, so orders under way decrease until the constant 1 balances this.
 */
export function newOrdersBeside(ongoing: number): number {
  return 1 + Math.floor(ongoing / (REQUESTS_OF_AN_ORDER + 1))
}

export function isTurnedAway(pressure: number, resource: LimitedResource, isHeavy: boolean): boolean {
  const { fair, heavy } = REFUSED_FROM[WORK_CLASS[resource]]
  return pressure > (isHeavy ? heavy : fair)
}

/** Heavy: a fifth of the total, and more than twice the average of the other users. */
export function isHeavy(own: number, total: number, users: number): boolean {
  if (users < 2 || own < total / 5) return false
  return own > (2 * (total - own)) / (users - 1)
}

/** Milliseconds between two measurements. */
export const TICK_MS = 50
/** Ticks of pressure that begin an overload: 200 ms. */
const PRESSED_TICKS = 4
/** Ticks without pressure that end it: one second. */
const GONE_TICKS = 20
const GONE = 0.5

export interface OverloadState {
  readonly isOverloaded: boolean
  /** Ticks in a row whose pressure indicates the other state. */
  readonly streak: number
}

export const CALM: OverloadState = { isOverloaded: false, streak: 0 }

/** Called every `TICK_MS`. */
export function nextState({ isOverloaded, streak }: OverloadState, pressure: number): OverloadState {
  const speaksForChange = isOverloaded ? pressure < GONE : pressure > 1
  if (!speaksForChange) return { isOverloaded, streak: 0 }
  if (streak + 1 < (isOverloaded ? GONE_TICKS : PRESSED_TICKS)) return { isOverloaded, streak: streak + 1 }
  return { isOverloaded: !isOverloaded, streak: 0 }
}

/** Weight of the last tick in the rate; it follows a change in a quarter of a second. */
const RATE_WEIGHT = 0.2
/** Fewer requests are no queue. If they are slow, the database is distant and not busy. */
const QUEUE = 16

/** Smoothed answers per millisecond. */
export function nextRate(rate: number, answered: number): number {
  return rate + RATE_WEIGHT * (answered / TICK_MS - rate)
}

/** Rounded up from 3.3 ms: a refused body of 64 KB of nested arrays, the most that a request costs at a stretch. */
const MOST_WORK_MS = 4

/**
 * How long requests wait until they are read. With few requests the lateness comes from other
 * processes, and refusing would not help.
 */
export function readingDelayMs(lateMs: number, arrived: number): number {
  return Math.min(lateMs, arrived * MOST_WORK_MS)
}

/** Milliseconds that a request will take if it arrives now (Little's law). */
export function expectedDelayMs(underWay: number, rate: number): number {
  return underWay < QUEUE ? 0 : underWay / rate
}

/** Random seconds until a retry. The range grows with the episode, which spreads the retries. */
export function retryAfterSeconds(episodeMs: number, draw: number): number {
  const spread = Math.min(30, 4 + episodeMs / 2000)
  return 1 + Math.floor(draw * spread)
}

/** An episode of overload ends after two seconds without a refusal; the log has two lines of it. */
export type ShedReason = 'delay' | 'heavy_address'

export interface EpisodeFacts {
  /** Delay of the last tick. */
  delayMs: number
  inFlight: number
}

export interface EpisodeEvents {
  begun(facts: EpisodeFacts): void
  ended(facts: { seconds: number; turnedAway: number }): void
  /** Once a tick, with the refusals of that tick. */
  turnedAway(reason: ShedReason, count: number): void
}

/** Joins overload that stops and resumes into one episode. */
const EPISODE_END_MS = 2000

export class OverloadEpisode {
  readonly #events: EpisodeEvents
  /** Refusals of this tick. */
  readonly #refused: Record<ShedReason, number> = { delay: 0, heavy_address: 0 }
  #episode: { since: number; refusedAt: number; turnedAway: number } | undefined

  constructor(events: EpisodeEvents) {
    this.#events = events
  }

  refused(reason: ShedReason): void {
    this.#refused[reason]++
  }

  refusedInTick(reason: ShedReason): number {
    return this.#refused[reason]
  }

  ageMs(now: number): number {
    return this.#episode ? now - this.#episode.since : 0
  }

  tick(now: number, facts: () => EpisodeFacts): void {
    const count = this.#refused.delay + this.#refused.heavy_address
    if (count > 0) {
      if (!this.#episode) {
        this.#episode = { since: now, refusedAt: now, turnedAway: 0 }
        this.#events.begun(facts())
      }
      this.#episode.refusedAt = now
      this.#episode.turnedAway += count
      this.#reportRefusals()
    } else if (this.#episode && now - this.#episode.refusedAt > EPISODE_END_MS) {
      const { since, refusedAt, turnedAway } = this.#episode
      this.#episode = undefined
      this.#events.ended({ seconds: Math.round((refusedAt - since) / 100) / 10, turnedAway })
    }
  }

  #reportRefusals(): void {
    for (const reason of ['delay', 'heavy_address'] as const) {
      if (this.#refused[reason] > 0) this.#events.turnedAway(reason, this.#refused[reason])
      this.#refused[reason] = 0
    }
  }
}
