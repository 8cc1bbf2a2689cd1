/**
 * Which connections a front thread accepts.
 *
 * The library ends silent connections after about ten seconds, so usually one bound is enough.
 * Above half of it, or under overload, heavy addresses are refused before the TLS handshake.
 * On a busy thread an address without budget keeps `FEW` connections. Refusing those as well would
 * only cause more handshakes.
 */

import { addressKey, HeavyAddresses } from './address-usage.ts'

export interface ConnectionGateOptions {
  /** Of this thread. */
  maxConnections: number
  /** A proxy forwards many clients, so it is never refused below the bound. */
  isTrustedProxy(address: string): boolean
  /** The thread is busy, or its queue grows. */
  isBusy(): boolean
  isOverloaded(): boolean
  /** The address has used up its budget of failed requests. */
  isUnwelcome(address: string): boolean
  clock?(): number
}

/** The library keeps an idle connection as long. */
const HALF_LIFE_MS = 10_000
/** An address with no more connections is never heavy. */
const FEW = 32
const LOOK_MS = 50

/** @returns whether a connection is accepted, by its address and the number of open ones */
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
