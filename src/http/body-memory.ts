/**
 * Memory for the request bodies of a thread but the short ones that came in one piece, until they were read: one bound for all of them, and
 * a share for each address.
 *
 * Charged is what is allocated, and allocated is what has arrived, at most doubled: a declared length is a promise that
 * costs its sender nothing, so it reserves nothing.
 */

import { countedAddress } from '../domain/rate-limit.ts'

export interface BodyMemoryOptions {
  /** All together; without it any amount. */
  maxBytes: number | undefined
  /** An address that speaks for many and may use all of it. */
  isTrustedProxy(address: string): boolean
}

const NOTHING = Buffer.alloc(0)

/** What a single address may hold of it. Eight addresses can still use it up, but only with bytes that they have sent. */
const SHARE = 1 / 8

/**
 * First allocation for a body. As many connections as a thread takes by default (8192), with a byte each, then hold a
 * quarter of 32 MiB; more would be memory for nothing, less would be one copy more for the usual 1 to 2 KB.
 */
const FIRST_BYTES = 1024

export class BodyMemory {
  bytes = 0
  readonly #maxBytes: number
  readonly #share: number
  readonly #isTrustedProxy: (address: string) => boolean
  /** By counted address, as long as it holds something. */
  readonly #held = new Map<string, number>()

  constructor({ maxBytes = Number.POSITIVE_INFINITY, isTrustedProxy }: BodyMemoryOptions) {
    this.#maxBytes = maxBytes
    this.#share = maxBytes * SHARE
    this.#isTrustedProxy = isTrustedProxy
  }

  /** Addresses that hold something. */
  get holders(): number {
    return this.#held.size
  }

  /** For the body of a request from there. */
  begin(peerAddress: string, maxBytes: number): GatheredBody {
    return new GatheredBody(this, peerAddress, maxBytes)
  }

  /** @returns false, and takes nothing, when there is not as much left for this address. */
  take(holder: string, peerAddress: string, bytes: number): boolean {
    if (this.bytes + bytes > this.#maxBytes) return false
    const held = (this.#held.get(holder) ?? 0) + bytes
    if (held > this.#share && !this.#isTrustedProxy(peerAddress)) return false
    this.#held.set(holder, held)
    this.bytes += bytes
    return true
  }

  giveBack(holder: string, bytes: number): void {
    this.bytes -= bytes
    const held = (this.#held.get(holder) ?? 0) - bytes
    if (held > 0) this.#held.set(holder, held)
    else this.#held.delete(holder)
  }
}

/** One body, in a buffer that grows with it: many small pieces cost no more than a few large ones. */
export class GatheredBody {
  readonly #memory: BodyMemory
  readonly #peerAddress: string
  readonly #holder: string
  readonly #maxBytes: number
  #buffer = NOTHING
  #size = 0

  constructor(memory: BodyMemory, peerAddress: string, maxBytes: number) {
    this.#memory = memory
    this.#peerAddress = peerAddress
    this.#holder = peerAddress.includes(':') ? countedAddress(peerAddress) : peerAddress
    this.#maxBytes = maxBytes
  }

  /**
   * Copies a piece.
   *
   * @param piece not beyond `maxBytes` together with what came before.
   * @returns false when there is no memory for it; the body is then good for `release` only.
   */
  add(piece: Uint8Array): boolean {
    const size = this.#size + piece.length
    if (size > this.#buffer.length && !this.#grow(size)) return false
    this.#buffer.set(piece, this.#size)
    this.#size = size
    return true
  }

  #grow(size: number): boolean {
    const capacity = Math.min(this.#maxBytes, Math.max(size, 2 * this.#buffer.length, FIRST_BYTES))
    if (!this.#memory.take(this.#holder, this.#peerAddress, capacity - this.#buffer.length)) return false
    // Not from the shared pool, of which a slow body would hold a slab of 8 KiB.
    const buffer = Buffer.allocUnsafeSlow(capacity)
    buffer.set(this.#buffer.subarray(0, this.#size))
    this.#buffer = buffer
    return true
  }

  /** What has arrived; good until `release`. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size)
  }

  /** Idempotent. */
  release(): void {
    if (this.#buffer.length > 0) this.#memory.giveBack(this.#holder, this.#buffer.length)
    this.#buffer = NOTHING
    this.#size = 0
  }
}
