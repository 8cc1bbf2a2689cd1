/**
 * Memory for request bodies that arrive in pieces: one bound for the thread, and a share for each
 * address. Short bodies in one piece are not charged.
 *
 * The charge is the allocated size, at most twice what has arrived. A declared length reserves
 * nothing, because it costs its sender nothing.
 */

import { countedAddress } from '../shared/lib/ip-address.ts'

interface BodyMemoryOptions {
  /** For all bodies together; undefined: unbounded. */
  maxBytes: number | undefined
  /** A proxy forwards many clients, so it may use all of it. */
  isTrustedProxy(address: string): boolean
}

const NOTHING = Buffer.alloc(0)

/** Share of one address. Eight addresses can still use all of it, but only with bytes they sent. */
const SHARE = 1 / 8

/** For bodies received in pieces: 512 of the default maximum size of ACME, 64 from one address. */
const LEAST_BYTES = 32 * 1024 * 1024

/** Memory in which an address has room for a body of the largest size. */
export const bodyMemoryFor = (largestBodyBytes: number): number => Math.max(LEAST_BYTES, largestBodyBytes / SHARE)

/**
 * First allocation for a body: 8192 connections (the default) with a byte each hold a quarter of
 * 32 MiB. Less would cost the usual 1 to 2 KB one more copy.
 */
const FIRST_BYTES = 1024

export class BodyMemory {
  bytes = 0
  readonly #maxBytes: number
  readonly #share: number
  readonly #isTrustedProxy: (address: string) => boolean
  /** Bytes by counted address. */
  readonly #held = new Map<string, number>()

  constructor({ maxBytes = Number.POSITIVE_INFINITY, isTrustedProxy }: BodyMemoryOptions) {
    this.#maxBytes = maxBytes
    this.#share = maxBytes * SHARE
    this.#isTrustedProxy = isTrustedProxy
  }

  /** Number of addresses with a charge. */
  get holders(): number {
    return this.#held.size
  }

  begin(peerAddress: string, maxBytes: number): GatheredBody {
    return new GatheredBody(this, peerAddress, maxBytes)
  }

  /** @returns false, with nothing taken, when this address has not so much left. */
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

/** One body in a growing buffer: many small pieces cost no more than a few large ones. */
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
   * Appends a copy of a piece.
   *
   * @param piece may not bring the body over `maxBytes`
   * @returns false when there is no memory for it; then only `release` may be called
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
    // Not from the shared pool, where a slow body would hold a slab of 8 KiB.
    const buffer = Buffer.allocUnsafeSlow(capacity)
    buffer.set(this.#buffer.subarray(0, this.#size))
    this.#buffer = buffer
    return true
  }

  /** The bytes that have arrived; valid until `release`. */
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
