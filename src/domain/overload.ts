/**
 * When a front thread turns requests away, and which (docs/operations.md, "Overload"). Pure: no clock, no randomness.
 *
 * The measure is delay, not load: how long requests wait beyond their own work, as a multiple of the delay that the operator
 * accepts. A standing queue shows in it whatever is short (processor, database, signer), and nothing has to be known of how
 * much the machine can do. One number, the severity, follows it: a controller with a proportional and an integral
 * part, as PIE uses it for packets (RFC 8033), raises it while requests wait too long and lowers it when they do not.
 *
 * Requests have ranks, and the severity goes through them: at severity 3.4 all of rank 2 and below are turned away and two in
 * five of rank 3. Addresses that take much more than others come first, whatever they ask for. Among the rest
 * what begins something new comes first, and what goes on with it last: an order that was let in is worth something only when
 * its other six requests are, too.
 */

import type { ResourceName } from '../protocol/urls.ts'

/** `aside` belongs to no order under way; `ongoing` does, or costs no more than the refusal would. */
export type WorkClass = 'beginning' | 'aside' | 'ongoing'

export const WORK_CLASS = {
  newAccount: 'beginning',
  newOrder: 'beginning',
  newAuthz: 'beginning',
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
} as const satisfies Record<ResourceName, WorkClass>

const CLASS_RANK = { beginning: 0, aside: 1, ongoing: 2 } as const satisfies Record<WorkClass, number>
/** Ranks of addresses that take their share come behind all ranks of one that takes more. */
export const FAIR_RANKS = 3
export const MAX_SEVERITY = 6

export function rankOf(resource: ResourceName, isHeavy: boolean): number {
  return CLASS_RANK[WORK_CLASS[resource]] + (isHeavy ? 0 : FAIR_RANKS)
}

/** @param draw evenly from 0 to 1, fresh for each request. */
export function isTurnedAway(severity: number, rank: number, draw: number): boolean {
  return draw < severity - rank
}

/** Where several use the service at a time, one that uses twice as much as the others on average, and a fifth of all. */
export function isHeavy(own: number, total: number, users: number): boolean {
  if (users < 2 || own < total / 5) return false
  return own > (2 * (total - own)) / (users - 1)
}

/** Milliseconds between two looks at the delay. */
export const TICK_MS = 50
/** A queue that stands for so many looks is no burst: 200 ms. */
const STANDING_TICKS = 4

/** Gains for one tick and one accepted delay: quick enough for a load that doubles, slow enough not to swing (simulated in its test). */
const PROPORTIONAL = 0.6
const INTEGRAL = 0.06
/** A stall of seconds says no more than one of four accepted delays. */
const MAX_RATIO = 4
/** Below this the queue is gone, and the severity goes with it: a rank in half a second. */
const GONE_RATIO = 0.5
const RELEASE = 0.1

export interface OverloadState {
  readonly severity: number
  /** Delays of the last ticks as multiples of the accepted one, newest last. */
  readonly ratios: readonly number[]
}

export const CALM: OverloadState = { severity: 0, ratios: [] }

/**
 * One tick.
 * @param ratio measured delay by the accepted one. @param hasHeavy somebody takes more than his share; where nobody does there is no
 *   sense in going through the ranks below.
 */
export function nextState({ severity, ratios }: OverloadState, ratio: number, hasHeavy: boolean): OverloadState {
  const bounded = Math.min(ratio, MAX_RATIO)
  const recent = [...ratios.slice(1 - STANDING_TICKS), bounded]
  if (severity === 0) {
    const stands = recent.length === STANDING_TICKS && recent.every((one) => one > 1)
    if (!stands) return { severity: 0, ratios: recent }
    return { severity: (hasHeavy ? 0 : FAIR_RANKS) + PROPORTIONAL * (bounded - 1) + INTEGRAL, ratios: recent }
  }
  const before = ratios.at(-1) ?? 0
  const change =
    bounded < GONE_RATIO && before < GONE_RATIO
      ? -RELEASE
      : INTEGRAL * (bounded - 1) + PROPORTIONAL * (bounded - before)
  const next = Math.min(MAX_SEVERITY, Math.max(0, severity + change))
  // Nothing between 0 and the first rank that is in use would change anything.
  return { severity: !hasHeavy && next < FAIR_RANKS && change < 0 ? 0 : next, ratios: recent }
}

/** Seconds after which most of what was turned away can come again; longer the longer it has lasted, so that it comes spread out. */
export function retryAfterSeconds(episodeMs: number, draw: number): number {
  const spread = Math.min(30, 4 + episodeMs / 2000)
  return 1 + Math.floor(draw * spread)
}
