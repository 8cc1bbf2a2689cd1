/**
 * Anti-replay nonces (RFC 8555 §6.5): their text (`NonceSeal`), which of them were used
 * (`ReplayWindow`), and the source for `nonce.store: memory`.
 */

import { createCipheriv, createDecipheriv } from 'node:crypto'
import { decodeBase64url } from '../lib/encoding.ts'

export interface NonceSettings {
  /** 32 random bytes, the same for all threads of an instance. */
  key: Uint8Array
  /** Unix milliseconds when `key` was made. */
  epochMs: number
  expirySeconds: number
}

export interface Nonces {
  /** @param nowMs Unix milliseconds */
  issue(nowMs: number): string
  /**
   * Undefined for a nonce of another server, or an expired one.
   * It changes nothing, so it may run before the signature check.
   */
  open(nonce: string, nowMs: number): OpenNonce | undefined
  /**
   * Runs before a badNonce answer, so that nonces issued afterwards are accepted (RFC 8555 §6.5).
   * An unreadable nonce may become readable; absent where there is no state to refresh.
   */
  ensureCurrent?(): Promise<void>
}

interface OpenNonce {
  /** True exactly once for each issued nonce. */
  redeem(): boolean | Promise<boolean>
}

/**
 * Nonces sealed under a key that lives as long as the process. Nothing is stored: after a restart
 * every older nonce is a badNonce.
 */
export function createNonces(settings: NonceSettings, window: ReplayWindow): Nonces {
  const seal = createNonceSeal(settings.key, settings.epochMs, settings.expirySeconds)
  let batch: string[] = []
  let batchMadeMs = 0

  return {
    issue(nowMs) {
      if (batch.length === 0 || nowMs - batchMadeMs > seal.batchLifeMs) {
        batch = seal.sealBatch(window.nextBlock(), nowMs)
        batchMadeMs = nowMs
      }
      return batch.pop() as string
    },
    open(nonce, nowMs) {
      const unsealed = seal.unseal(nonce, nowMs)
      return unsealed && { redeem: () => window.redeem(unsealed.counter) }
    },
  }
}

/*
 * The text: a counter and a time, sealed under a key, 22 characters.
 *
 * One AES-256 block: 6 bytes of counter, 4 bytes of time, 6 zero bytes. The time is in tenths of a
 * second since the key was made, modulo 13 years: a process may start before its clock is right. A
 * foreign block decrypts to six zero bytes once in 2^48 tries.
 */

const BLOCK_BYTES = 16
const SEALED_CHARACTERS = 22

/** Nonces sealed in one call: one block alone costs nearly as much. */
export const NONCE_BATCH = 32

/** Longest use of a sealed batch, in milliseconds and as a share of a nonce's life. */
const BATCH_LIFE_MS = 5_000
const BATCH_LIFE_SHARE = 0.2

const TICK_MS = 100
/** When the 4 bytes begin anew. */
const LAP_MS = 2 ** 32 * TICK_MS

interface Unsealed {
  counter: number
  /** Tenths of a second since the key was made, modulo `LAP_MS`. */
  tick: number
}

export interface NonceSeal {
  /** How long a batch may be handed out. */
  readonly batchLifeMs: number
  /** `NONCE_BATCH` nonces with consecutive counters below 2^48. */
  sealBatch(firstCounter: number, nowMs: number): string[]
  /** Undefined for a nonce of another key, or an expired one. */
  unseal(nonce: string, nowMs: number): Unsealed | undefined
}

/** @param madeAtMs Unix milliseconds when `key`, 32 random bytes, was made */
export function createNonceSeal(key: Uint8Array, madeAtMs: number, expirySeconds: number): NonceSeal {
  // ECB over blocks that never repeat is a plain permutation, so one cipher object serves every call.
  const seal = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  const open = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false)

  return {
    batchLifeMs: Math.min(BATCH_LIFE_MS, expirySeconds * 1000 * BATCH_LIFE_SHARE),
    sealBatch(firstCounter, nowMs) {
      const blocks = Buffer.alloc(NONCE_BATCH * BLOCK_BYTES)
      // A clock set back to before the start gives nonces a longer life, instead of a negative time.
      const tick = Math.floor((Math.max(0, nowMs - madeAtMs) % LAP_MS) / TICK_MS)
      for (let i = 0; i < NONCE_BATCH; i++) {
        blocks.writeUIntBE(firstCounter + i, i * BLOCK_BYTES, 6)
        blocks.writeUInt32BE(tick, i * BLOCK_BYTES + 6)
      }
      const sealed = seal.update(blocks)
      return Array.from({ length: NONCE_BATCH }, (_, i) =>
        sealed.toString('base64url', i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES),
      )
    },
    unseal(nonce, nowMs) {
      const sealed = nonce.length === SEALED_CHARACTERS ? decodeBase64url(nonce) : undefined
      if (!sealed) return undefined
      const block = open.update(sealed)
      if (block.readUIntBE(10, 6) !== 0) return undefined
      const tick = block.readUInt32BE(6)
      const sinceMs = Math.max(0, nowMs - madeAtMs) - tick * TICK_MS
      const ageMs = sinceMs - Math.round(sinceMs / LAP_MS) * LAP_MS
      return ageMs <= expirySeconds * 1000 ? { counter: block.readUIntBE(0, 6), tick } : undefined
    },
  }
}

/*
 * The window redeems recently issued counters: one bit each, in memory shared by threads.
 *
 * Counters are issued in blocks of 32, one word, so a thread touches the shared counter once in 32.
 * The bitmap is a ring of `size` bits. A counter can be redeemed while fewer than size/2 later ones
 * have been issued.
 *
 * 1. A word is cleared size/4 counters after its old ones left the window, and size/4 before reuse.
 * 2. Redeeming checks the window, sets the bit, and checks the window again.
 * 3. A thread delayed past the clearing fails the second check: no counter is redeemed twice.
 */

/** 2^26 bits are 8 MiB. A nonce outlives 2^25 later ones: 18 minutes at 30,000 requests a second. */
const DEFAULT_SIZE_LOG2 = 26

const BLOCK = 32

interface ReplayWindow {
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
