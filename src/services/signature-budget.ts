/**
 * How many signatures of an address may fail before the next one is not looked at (docs/operations.md, "Overload").
 *
 * To verify a signature is the most that a stranger can make this service do. Each that fails, and each look for an account
 * that is not there, is charged to the address it came from; the debt halves in ten seconds. Over the bound a request is refused
 * before its signature is looked at, unless its account has signed well from this very address last: whoever shares an
 * address with an abuser goes on. The debt is that of one front thread, so an address has the bound of each.
 */

import { countedAddress } from '../domain/rate-limit.ts'
import { DecayingSketch, sketchKey } from '../lib/decaying-sketch.ts'
import { Problem } from '../protocol/problem.ts'

export interface SignatureBudget {
  /** @throws Problem rateLimited when the address has failed too often and `provenFrom` is another one. */
  require(address: string, provenFrom?: string): void
  failed(address: string): void
  /** Whether answers to this address had better be late. */
  isExhausted(address: string): boolean
}

export interface SignatureBudgetEvents {
  /** At most once a second. */
  exhausted(address: string): void
  refused(): void
}

const HALF_LIFE_MS = 10_000
/** At once; sustained, seven a second keep the debt at this. A hundred clients behind one address may all be mistaken once. */
const BOUND = 100
/** So that it is forgotten ten seconds after the last. */
const MOST = 2 * BOUND
const ANNOUNCE_MS = 1000
const RETRY_SPREAD_SECONDS = 10

export function createSignatureBudget(
  isEnabled: boolean,
  events: SignatureBudgetEvents,
  clock: () => number = () => performance.now(),
): SignatureBudget {
  const debts = new DecayingSketch(HALF_LIFE_MS)
  /** Until when anybody at all can be over the bound: while nobody is, nothing is looked up. */
  let looksUntil = 0
  let announcedAt = Number.NEGATIVE_INFINITY
  const keyOf = (address: string) => sketchKey(address.includes(':') ? countedAddress(address) : address)

  function isExhausted(address: string): boolean {
    if (looksUntil === 0) return false
    const now = clock()
    if (now > looksUntil) {
      looksUntil = 0
      return false
    }
    return debts.amount(keyOf(address), now) > BOUND
  }

  return {
    isExhausted,
    require(address, provenFrom) {
      if (looksUntil === 0 || provenFrom === address || !isExhausted(address)) return
      events.refused()
      throw new Problem('rateLimited', `too many signatures of requests from ${address} have failed; wait a little`, {
        retryAfterSeconds: 1 + Math.floor(Math.random() * RETRY_SPREAD_SECONDS),
      })
    },
    failed(address) {
      if (!isEnabled) return
      const now = clock()
      const key = keyOf(address)
      const debt = debts.amount(key, now)
      if (debt < MOST) debts.add(key, 1, now)
      if (debt <= BOUND) return
      looksUntil = now + HALF_LIFE_MS
      if (now - announcedAt < ANNOUNCE_MS) return
      announcedAt = now
      events.exhausted(address)
    },
  }
}
