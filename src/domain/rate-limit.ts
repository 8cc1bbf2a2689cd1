/**
 * Rate limits: the categories and the arithmetic (docs/decisions/rate-limits.md). Pure: no clock, no storage.
 *
 * The generic cell rate algorithm is a token bucket in one number, the theoretical arrival time (TAT): when the bucket
 * will be full again. `requests` may come at once; each returns after `window / requests`. So any span of t
 * microseconds admits at most `requests + t / interval`. Times are whole microseconds, so that memory and database
 * compute the same numbers; intervals are rounded up, towards fewer requests.
 */

import { countedAddress } from '../shared/lib/ip-address.ts'

/** Category → the subject that its counters are kept for. */
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
  /** How far the TAT may be ahead of an admitted request. */
  tolerance: number
}

export function paceOf({ requests, windowSeconds }: RateLimit): Pace {
  const interval = Math.ceil((windowSeconds * 1e6) / requests)
  return { interval, tolerance: interval * (requests - 1) }
}

/** How many requests fit at `now`. A TAT in the past, zero included, is a full bucket. */
export function fitting(tat: number, { interval, tolerance }: Pace, now: number): number {
  const ahead = Math.max(tat - now, 0)
  return ahead > tolerance ? 0 : Math.floor((tolerance - ahead) / interval) + 1
}

/** The TAT after `count` admitted requests. */
export function charged(tat: number, { interval }: Pace, now: number, count = 1): number {
  return Math.max(tat, now) + count * interval
}

/** The TAT without `count` requests that were charged but not served. */
export function refunded(tat: number, { interval }: Pace, count = 1): number {
  return tat - count * interval
}

/** Microseconds from `now` until a request passes. */
export function waitOf(tat: number, { tolerance }: Pace, now: number): number {
  return Math.max(tat - tolerance - now, 0)
}

/* When failed logins lock an address or a username. */

/** Failures within 300 s lock for 900 s. */
export const LOGIN_LIMIT = { windowSeconds: 300, lockSeconds: 900 }

/** Failures that lock a username. An address with as many is answered slowly. */
export const MOST_OF_USERNAME = 5
/** Behind a tunnel or a local proxy all people have one address. */
export const MOST_OF_ADDRESS = 50
/** Four requests of an address are at work at once, so it makes four guesses in this time. */
export const SLOW_MS = 1_000

/** An address from which a user has signed in within this time is not locked with the username. */
export const KNOWN_ADDRESS_HOURS = 24

/** IPv6 by its /64: a stranger has as many addresses of one network as there are guesses. */
export const addressSubject = (address: string) => `address ${countedAddress(address)}`
export const usernameSubject = (username: string) => `username ${username.toLowerCase()}`
/** Right passwords behind which a passkey is asked for; they are counted and lock nothing. */
export const secondFactorSubject = (username: string) => `second factor ${username.toLowerCase()}`
