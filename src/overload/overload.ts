/**
 * When a front thread turns requests away, and which (docs/operations/limits.md). Pure: no clock, no randomness.
 *
 * The measure is delay, not load, so nothing has to be known of how much the machine can do, and a queue shows whatever is short:
 * processor, disk or database. How long a request that comes now will take is known at once, by Little's law: requests under
 * way by requests answered in a second. That over the delay the operator accepts is the pressure.
 *
 * A burst is no overload: only when the pressure has stood above 1 for a while a thread begins to refuse. From then on the
 * pressure of the moment decides about each request by what it is for. What begins something new is refused first, and what
 * goes on with it last: an order that was let in is worth something only when its other six requests are, too. So the orders
 * under way stay as many as can be served in time, and all of those are. Addresses that take much more than others come
 * before either, whatever they ask for.
 *
 * Where requests queue at all, what begins something new waits until those that go on have been served, and then begins in the
 * measure in which these come. So a thousand orders do not all wait seven times with each other: as many are under way as the
 * machine is busy with, and an order that waits does so once, for all its requests.
 */

import type { ResourceName } from '../shared/protocol/urls.ts'

/** `aside` belongs to no order under way; `ongoing` does, or costs no more than the refusal would. */
export type WorkClass = 'new' | 'aside' | 'ongoing' | 'probe'

/** Beside ACME there are health and metrics: `probe`. */
export type LimitedResource = ResourceName | 'probe'

export const WORK_CLASS = {
  newAccount: 'new',
  newOrder: 'new',
  newAuthz: 'new',
  account: 'aside',
  accountOrders: 'aside',
  keyChange: 'aside',
  renewalInfo: 'aside',
  directory: 'ongoing',
  newNonce: 'ongoing',
  order: 'ongoing',
  finalize: 'ongoing',
  authorization: 'ongoing',
  challenge: 'ongoing',
  certificate: 'ongoing',
  // A key that is in the wrong hands does not wait.
  revokeCert: 'ongoing',
  crl: 'ongoing',
  probe: 'probe',
} as const satisfies Record<LimitedResource, WorkClass>

/** Pressure from which on requests of a class are refused: to an address that takes its share, and to one that takes far more. */
const REFUSED_FROM = {
  new: { fair: 1, heavy: 0.5 },
  aside: { fair: 2, heavy: 0.75 },
  ongoing: { fair: 10, heavy: 1 },
  probe: { fair: Number.POSITIVE_INFINITY, heavy: 0.5 },
} as const satisfies Record<WorkClass, { fair: number; heavy: number }>

/** Requests of an order from its beginning to its certificate, when nothing is polled twice. */
const REQUESTS_OF_AN_ORDER = 7

/** Of a delay at the beginning, compared with that of every request. */
export function newOrderPressure(delayMs: number, targetDelayMs: number): number {
  return delayMs / (REQUESTS_OF_AN_ORDER * targetDelayMs)
}

/**
 * How many may begin, of those that wait, when so many requests that go on have been served. Each brings six of these with it, so those
 * under way become fewer, until turns are short and the one that may begin in any case is what keeps their number.
 */
export function newOrdersBeside(ongoing: number): number {
  return 1 + Math.floor(ongoing / (REQUESTS_OF_AN_ORDER + 1))
}

export function isTurnedAway(pressure: number, resource: LimitedResource, isHeavy: boolean): boolean {
  const { fair, heavy } = REFUSED_FROM[WORK_CLASS[resource]]
  return pressure > (isHeavy ? heavy : fair)
}

/** Where several use the service at a time, one that uses twice as much as the others on average, and a fifth of all. */
export function isHeavy(own: number, total: number, users: number): boolean {
  if (users < 2 || own < total / 5) return false
  return own > (2 * (total - own)) / (users - 1)
}

/** Milliseconds between two looks at the pressure. */
export const TICK_MS = 50
/** What stands for so many looks is no burst: 200 ms. */
const STANDING_TICKS = 4
/** Without pressure for so many, it is over: one second. */
const GONE_TICKS = 20
const GONE = 0.5

export interface OverloadState {
  readonly isOverloaded: boolean
  /** Looks in a row that speak for the other state. */
  readonly streak: number
}

export const CALM: OverloadState = { isOverloaded: false, streak: 0 }

/** One look, every `TICK_MS`. */
export function nextState({ isOverloaded, streak }: OverloadState, pressure: number): OverloadState {
  const speaksForChange = isOverloaded ? pressure < GONE : pressure > 1
  if (!speaksForChange) return { isOverloaded, streak: 0 }
  if (streak + 1 < (isOverloaded ? GONE_TICKS : STANDING_TICKS)) return { isOverloaded, streak: streak + 1 }
  return { isOverloaded: !isOverloaded, streak: 0 }
}

/** Weight of the last tick in the rate of answers: it follows a change in a quarter of a second. */
const RATE_WEIGHT = 0.2
/** Fewer requests at a time are no queue: where they take long, the database is far away and not busy. */
const QUEUE = 16

/** Answers a millisecond, smoothed. */
export function nextRate(rate: number, answered: number): number {
  return rate + RATE_WEIGHT * (answered / TICK_MS - rate)
}

/** More than any request keeps a thread busy at a stretch. */
const MOST_WORK_MS = 1

/**
 * How long requests wait until they are read. A thread is late for its own work, or because others have the processor; where it has
 * few requests it is the others, and refusing would help nobody.
 */
export function readingDelayMs(lateMs: number, arrived: number): number {
  return Math.min(lateMs, arrived * MOST_WORK_MS)
}

/** Milliseconds that a request which comes now will take. */
export function expectedDelayMs(underWay: number, rate: number): number {
  return underWay < QUEUE ? 0 : underWay / rate
}

/** Seconds after which most of what was turned away can come again; longer the longer it has lasted, so that it comes spread out. */
export function retryAfterSeconds(episodeMs: number, draw: number): number {
  const spread = Math.min(30, 4 + episodeMs / 2000)
  return 1 + Math.floor(draw * spread)
}
