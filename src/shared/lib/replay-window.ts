/**
 * Which of the recently issued counters have been redeemed: one bit each, in memory shared by threads.
 *
 * Counters are issued in blocks of 32, the bits of one word, so that a thread touches the shared counter once in 32.
 * The bitmap is a ring of `size` bits. A counter can be redeemed while fewer than size/2 counters have been issued after
 * it; the word of a block is cleared when the block size/4 before it is issued, that is size/4 counters after its
 * previous tenants fell out of the window. Redeeming looks at the window, sets the bit, and looks at the window again:
 * whoever was delayed between the first look and the bit, for so long that the word was cleared meanwhile, fails the
 * second look. So no counter is ever redeemed twice.
 */

/** 2^26 bits are 8 MiB and let a nonce live through 2^25 later ones: 18 minutes at 30,000 requests a second. */
const DEFAULT_SIZE_LOG2 = 26

const BLOCK = 32

export interface ReplayWindow {
  /** First counter of 32 that nobody else has. */
  nextBlock(): number
  /** True exactly once for each issued counter, as long as it is inside the window. */
  redeem(counter: number): boolean
}

/** Shared memory for one window; hand it to every thread. */
export function allocateReplayWindow(sizeLog2 = DEFAULT_SIZE_LOG2): SharedArrayBuffer {
  return new SharedArrayBuffer(8 + 2 ** sizeLog2 / 8)
}

export function openReplayWindow(memory: SharedArrayBuffer): ReplayWindow {
  const issuedBlocks = new BigInt64Array(memory, 0, 1)
  const words = new Int32Array(memory, 8)
  const size = words.length * BLOCK

  /** How many counters have been issued, those of the newest block included. */
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
