/**
 * Which connections a front thread takes.
 *
 * A connection costs little until it asks for something, and the library ends those that say nothing or trickle within some ten seconds. So
 * there is a bound for all, and only where it comes near, or the thread is overloaded, a connection is refused to
 * the address that has opened far more than others lately. It is then refused before TLS, which is the dear part. An address that
 * has made itself unwelcome keeps a few as soon as the thread has no rest: each connection that ends behind a refusal would otherwise come back
 * with a handshake.
 */

import { countedAddress } from '../domain/rate-limit.ts'
import { DecayingSketch, sketchKey } from './decaying-sketch.ts'
import { isHeavy } from './overload.ts'

export interface ConnectionGateOptions {
  /** Of this thread. */
  maxConnections: number
  /** A proxy that speaks for many. */
  isTrustedProxy(address: string): boolean
  /** It has no rest, or its queue grows. */
  isBusy(): boolean
  isOverloaded(): boolean
  /** An address that has made itself unwelcome. */
  isUnwelcome(address: string): boolean
  clock?(): number
}

/** As long as the library lets an idle connection be. */
const HALF_LIFE_MS = 10_000
/** An address with fewer is never taken for a crowd, not even one that is alone. */
const FEW = 32
const LOOK_MS = 50

export function createConnectionGate({
  maxConnections,
  isTrustedProxy,
  isBusy,
  isOverloaded,
  isUnwelcome,
  clock = () => performance.now(),
}: ConnectionGateOptions): (peerAddress: string, open: number) => boolean {
  const opened = new DecayingSketch(HALF_LIFE_MS)
  let lookedAt = Number.NEGATIVE_INFINITY
  let users = 0
  let total = 0

  function look(now: number): void {
    if (now - lookedAt < LOOK_MS) return
    lookedAt = now
    total = opened.total(now)
    users = opened.profile(1, now).users
  }

  return (address, open) => {
    if (open > maxConnections) return false
    if (isTrustedProxy(address)) return true
    const now = clock()
    const key = sketchKey(countedAddress(address))
    opened.add(key, 1, now)
    const isScarce = open > maxConnections / 2 || isOverloaded()
    if (!isScarce && !isBusy()) return true
    const own = opened.amount(key, now)
    if (own <= FEW) return true
    if (isUnwelcome(address)) return false
    if (!isScarce) return true
    look(now)
    return !isHeavy(own, total, users)
  }
}
