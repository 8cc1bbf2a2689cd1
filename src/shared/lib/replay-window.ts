/**
 * Redeems recently issued counters: one bit each, in memory shared by threads.
 *
 * Counters are issued in blocks of 32, one word, so a thread touches the shared counter once in 32.
 * The bitmap is a ring of `size` bits. A counter can be redeemed while fewer than size/2 later ones
 * have been issued.
 *
 * 1. A word is cleared size/4 counters after its old ones left the window, and size/4 before reuse.
 * 2. Redeeming checks the window, sets the bit, and checks the window again.
 * 3. A thread delayed past the clearing fails the second check: no counter is redeemed twice.
 */

/**
 * 2^26 bits are 8 MiB. A nonce outlives 2^25 later ones: 18 minutes at 30,000 requests a second.
 */
const DEFAULT_SIZE_LOG2 = 26

const BLOCK = 32

export interface ReplayWindow {
  /** @returns the first counter of 32 that no other caller gets */
  nextBlock(): number
  /** True exactly once for each issued counter inside the window. */
  redeem(counter: number): boolean
}

/** Shared memory for one window; every thread gets it. */
export function allocateReplayWindow(sizeLog2 = DEFAULT_SIZE_LOG2): SharedArrayBuffer {
  return new SharedArrayBuffer(8 + 2 ** sizeLog2 / 8)
}

export function openReplayWindow(memory: SharedArrayBuffer): ReplayWindow {
  const issuedBlocks = new BigInt64Array(memory, 0, 1)
  const words = new Int32Array(memory, 8)
  const size = words.length * BLOCK

  /** Counters issued so far, including the whole newest block. */
  const issued = () => Number(Atomics.load(issuedBlocks, 0)) * BLOCK
  const isInside = (counter: number, limit: number) => counter < limit && limit - counter <= size / 2

  return {
    nextBlock() {
      const block = Number(Atomics.add(issuedBlocks, 0, 1n))
      Atomics.store(words, (block + words.length / 4) % words.length, 0)
      return block * BLOCK
    },
    redeem(counter) {
      if (!isInside(counter, issued())) return false
      const bit = 1 << (counter % BLOCK)
      const before = Atomics.or(words, Math.floor(counter / BLOCK) % words.length, bit)
      return (before & bit) === 0 && isInside(counter, issued())
    },
  }
}
