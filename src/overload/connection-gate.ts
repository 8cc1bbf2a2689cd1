/**
 * Which connections a front thread takes.
 *
 * The library ends silent connections within some ten seconds, so one bound for all is enough in calm. Where it comes
 * near, or the thread is overloaded, addresses that open far more connections than others are refused, before TLS.
 * An address without budget keeps a few on a busy thread: each connection that ends behind a refusal would come back
 * with a handshake.
 */

import { addressKey, HeavyAddresses } from './heavy-addresses.ts'

export interface ConnectionGateOptions {
  /** Of this thread. */
  maxConnections: number
  /** A proxy forwards many clients, so it is never refused below the bound. */
  isTrustedProxy(address: string): boolean
  /** The thread has no rest, or its queue grows. */
  isBusy(): boolean
  isOverloaded(): boolean
  /** The address has used up its budget of failed requests. */
  isUnwelcome(address: string): boolean
  clock?(): number
}

/** As long as the library keeps an idle connection. */
const HALF_LIFE_MS = 10_000
/** An address with fewer is never heavy, not even one that is alone. */
const FEW = 32
const LOOK_MS = 50

/** @returns whether a connection is taken, given its address and how many are open. */
export function createConnectionGate({
  maxConnections,
  isTrustedProxy,
  isBusy,
  isOverloaded,
  isUnwelcome,
  clock = () => performance.now(),
}: ConnectionGateOptions): (peerAddress: string, open: number) => boolean {
  const opened = new HeavyAddresses(HALF_LIFE_MS)
  let lookedAt = Number.NEGATIVE_INFINITY

  return (address, open) => {
    if (open > maxConnections) return false
    if (isTrustedProxy(address)) return true
    const now = clock()
    const key = addressKey(address)
    opened.count(key, 1, now)
    const isScarce = open > maxConnections / 2 || isOverloaded()
    if (!isScarce && !isBusy()) return true
    if (opened.amount(key, now) <= FEW) return true
    if (isUnwelcome(address)) return false
    if (!isScarce) return true
    if (now - lookedAt >= LOOK_MS) {
      lookedAt = now
      opened.look(now)
    }
    return !opened.isHeavy(key, now)
  }
}
