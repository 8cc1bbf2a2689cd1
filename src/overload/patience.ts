/**
 * How much of this service an address may waste before it is held back (docs/operations.md, "Overload").
 *
 * To verify a signature is the most that a stranger can make this service do. Each that fails is charged to the address it came
 * from, as are looks for an account that is not there, bodies that are too large, and in small coin whatever else is no proper
 * request. The debt halves in ten seconds. Over the bound, signatures from there are not looked at any more, unless the
 * account has signed well from this very address last, so that whoever shares an address with an abuser goes on; and the
 * front sends refusals there late. The debt is that of one front thread: each has a bound of its own.
 */

import { countedAddress } from '../domain/rate-limit.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { DecayingSketch, sketchKey } from './decaying-sketch.ts'

export interface Patience {
  /** Before a signature is verified. @throws Problem rateLimited when the address is held back and `provenFrom` is another one. */
  require(address: string, provenFrom?: string): void
  /** @param amount 1 is a signature. */
  wasted(address: string, amount: number): void
  isExhausted(address: string): boolean
}

export interface PatienceEvents {
  /** At most once a second. */
  exhausted(address: string): void
  /** A signature was not looked at. */
  refused(): void
}

const HALF_LIFE_MS = 10_000
/** At once; in the long run seven a second keep the debt at this. A hundred clients behind one address may all err once. */
const BOUND = 100
/** The debt goes no further, so that it is under the bound ten seconds after the last waste. */
const MOST = 2 * BOUND
const ANNOUNCE_MS = 1000
const RETRY_SPREAD_SECONDS = 10

export function createPatience(
  isEnabled: boolean,
  events: PatienceEvents,
  clock: () => number = () => performance.now(),
): Patience {
  const debts = new DecayingSketch(HALF_LIFE_MS)
  /** Until when anybody at all can be over the bound; while nobody is, nothing is looked up. */
  let looksUntil = 0
  let announcedAt = Number.NEGATIVE_INFINITY
  const keyOf = (address: string) => sketchKey(countedAddress(address))

  function isExhausted(address: string): boolean {
    if (looksUntil === 0) return false
    const now = clock()
    if (now <= looksUntil) return debts.amount(keyOf(address), now) > BOUND
    looksUntil = 0
    return false
  }

  return {
    isExhausted,
    require(address, provenFrom) {
      if (looksUntil === 0 || provenFrom === address || !isExhausted(address)) return
      events.refused()
      throw new Problem('rateLimited', `too many requests from ${address} have failed; wait a little`, {
        retryAfterSeconds: 1 + Math.floor(Math.random() * RETRY_SPREAD_SECONDS),
      })
    },
    wasted(address, amount) {
      if (!isEnabled) return
      const now = clock()
      const key = keyOf(address)
      const debt = debts.amount(key, now)
      if (debt < MOST) debts.add(key, amount, now)
      if (debt + amount <= BOUND) return
      looksUntil = now + HALF_LIFE_MS
      if (now - announcedAt < ANNOUNCE_MS) return
      announcedAt = now
      events.exhausted(address)
    },
  }
}
