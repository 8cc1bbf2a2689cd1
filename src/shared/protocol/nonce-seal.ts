/**
 * Nonces as text: a counter and a time, sealed under a key, 22 characters.
 *
 * One AES-256 block: 6 bytes of counter, 4 bytes of time, 6 zero bytes. The time is in tenths of a
 * second since the key was made, enough for 13 years. A foreign block decrypts to six zero bytes
 * once in 2^48 tries.
 */

import { createCipheriv, createDecipheriv } from 'node:crypto'
import { decodeBase64url } from '../lib/base64url.ts'

const BLOCK_BYTES = 16
const SEALED_CHARACTERS = 22

/** Nonces sealed in one call: one block alone costs nearly as much. */
export const NONCE_BATCH = 32

/** Longest use of a sealed batch, in milliseconds and as a share of a nonce's life. */
const BATCH_LIFE_MS = 5_000
const BATCH_LIFE_SHARE = 0.2

const TICK_MS = 100

export interface Unsealed {
  counter: number
  /** Tenths of a second since the key was made. */
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
  // ECB over blocks that never repeat is a plain permutation, so one cipher object serves every
  // call.
  const seal = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  const open = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false)

  return {
    batchLifeMs: Math.min(BATCH_LIFE_MS, expirySeconds * 1000 * BATCH_LIFE_SHARE),
    sealBatch(firstCounter, nowMs) {
      const blocks = Buffer.alloc(NONCE_BATCH * BLOCK_BYTES)
      // A clock set back to before the start gives nonces a longer life, instead of a negative
      // time.
      const tick = Math.max(0, Math.floor((nowMs - madeAtMs) / TICK_MS))
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
      const ageMs = nowMs - madeAtMs - tick * TICK_MS
      return ageMs <= expirySeconds * 1000 ? { counter: block.readUIntBE(0, 6), tick } : undefined
    },
  }
}
