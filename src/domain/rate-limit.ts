/**
 * Rate limits: the categories, and the arithmetic that decides (docs/decisions/rate-limits.md). Pure: no clock, no storage.
 *
 * The generic cell rate algorithm, a token bucket kept as one number. `requests` may come at once; each is earned back
 * after `window / requests`. All that is remembered of a key is its TAT, the theoretical arrival time: the instant at
 * which it will have everything back. So within any span of t microseconds at most `requests + t / interval` pass.
 * Times are whole microseconds, so that memory and database compute the very same numbers; the interval is rounded up,
 * towards fewer requests.
 */

import { parseIpAddress } from '../shared/pki/ip-address.ts'

/** Category → what its counters are kept for. */
export const RATE_CATEGORIES = {
  new_nonce: 'address',
  new_account: 'address',
  new_order: 'address',
  new_order_per_identifier: 'identifier',
  challenge: 'address',
  challenge_validation: 'account',
  finalize: 'account',
  key_change: 'account',
  account_orders: 'account',
  account_update: 'account',
  revoke_cert: 'address',
} as const

export type RateCategory = keyof typeof RATE_CATEGORIES
export type AddressCategory = {
  [C in RateCategory]: (typeof RATE_CATEGORIES)[C] extends 'address' ? C : never
}[RateCategory]

export interface RateLimit {
  requests: number
  windowSeconds: number
}

/** A limit as the arithmetic uses it, in microseconds. */
export interface Pace {
  /** Between two requests at the sustained rate. */
  interval: number
  /** How far the TAT may lie ahead of a request that passes. */
  tolerance: number
}

export function paceOf({ requests, windowSeconds }: RateLimit): Pace {
  const interval = Math.ceil((windowSeconds * 1e6) / requests)
  return { interval, tolerance: interval * (requests - 1) }
}

/** How many requests pass at `now`, one after the other. A TAT in the past, zero included, is a full bucket. */
export function fitting(tat: number, { interval, tolerance }: Pace, now: number): number {
  const ahead = Math.max(tat - now, 0)
  return ahead > tolerance ? 0 : Math.floor((tolerance - ahead) / interval) + 1
}

/** The TAT after `count` requests that passed. */
export function charged(tat: number, { interval }: Pace, now: number, count = 1): number {
  return Math.max(tat, now) + count * interval
}

/** Takes `count` requests back that were charged and not served. */
export function refunded(tat: number, { interval }: Pace, count = 1): number {
  return tat - count * interval
}

/** Microseconds from `now` until a request passes. */
export function waitOf(tat: number, { tolerance }: Pace, now: number): number {
  return Math.max(tat - tolerance - now, 0)
}

/** Where IPv6 leaves its holder off: a customer's smallest network, whose addresses cost nothing. */
const IPV6_NETWORK_OCTETS = 8
const MAPPED_PREFIX = '00000000000000000000ffff'

/** What a client address is counted as: IPv4 by itself, IPv6 by its /64, whatever the spelling. */
export function countedAddress(address: string): string {
  if (!address.includes(':')) return address
  const octets = parseIpAddress(address.replace(/%.*$/, ''))
  if (octets === undefined || octets.length === 4) return address
  if (octets.toString('hex', 0, 12) === MAPPED_PREFIX) return octets.subarray(12).join('.')
  return `${octets.toString('hex', 0, IPV6_NETWORK_OCTETS)}/64`
}
