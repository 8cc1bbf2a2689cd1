/** Bounds the connections of each address that has shown no token, so that strangers leave room for who may ask. */

import type { Socket } from 'node:net'
import { countedAddress } from '../domain/rate-limit.ts'
import { LruMap } from '../shared/lib/caching.ts'

/** A service opens as many before it has shown its token (`client.ts`). */
const MOST_OF_A_STRANGER = 64
const MOST_KNOWN = 1_024

export class StrangerGate {
  readonly #open = new Map<string, number>()
  readonly #known = new LruMap<string, true>(MOST_KNOWN)

  opened(socket: Socket): void {
    const address = addressOf(socket)
    const open = this.#open.get(address) ?? 0
    if (open >= MOST_OF_A_STRANGER && !this.#known.get(address)) {
      socket.destroy()
      return
    }
    this.#open.set(address, open + 1)
    // The address of a closed socket cannot be read any more.
    socket.once('close', () => this.#closed(address))
  }

  /** Its address has shown a token. */
  known(socket: Socket): void {
    this.#known.set(addressOf(socket), true)
  }

  #closed(address: string): void {
    const open = this.#open.get(address) ?? 0
    if (open > 1) this.#open.set(address, open - 1)
    else this.#open.delete(address)
  }
}

const addressOf = ({ remoteAddress = '' }: Socket): string => countedAddress(remoteAddress)
