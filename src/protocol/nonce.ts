/**
 * Anti-replay nonces (RFC 8555 §6.5): a counter and a time, sealed so that only this instance can make one.
 *
 * A nonce is one AES-256 block under a key that lives as long as the process: 6 bytes counter, 4 bytes seconds since the
 * start, 6 zero bytes. A block that was not made here decrypts to six zero bytes once in 2^48 tries. Which counters are
 * used up is the replay window's business; nothing is stored, and a restart makes every older nonce a badNonce.
 */

import { createCipheriv, createDecipheriv } from 'node:crypto'
import { decodeBase64url } from '../lib/base64url.ts'
import type { ReplayWindow } from '../lib/replay-window.ts'

const BLOCK_BYTES = 16
const BATCH = 32

export interface NonceSealSettings {
  /** 32 random bytes, the same for all threads of an instance. */
  key: Uint8Array
  /** Unix milliseconds when `key` was made. */
  epochMs: number
  expirySeconds: number
}

export interface Nonces {
  /** @param nowMs Unix milliseconds */
  issue(nowMs: number): string
  /** Whether this instance made the text and it has not expired; changes nothing, so it may run before the signature check. */
  isAuthentic(nonce: string, nowMs: number): boolean
  /** True exactly once for each issued nonce. */
  redeem(nonce: string, nowMs: number): boolean
}

/** A sealed batch is not handed out for longer than this, so that its time stays close to the truth. */
const BATCH_LIFE_MS = 5_000

export function createNonces(settings: NonceSealSettings, window: ReplayWindow): Nonces {
  // ECB over blocks that never repeat is a plain permutation; one cipher object then serves every call.
  const seal = createCipheriv('aes-256-ecb', settings.key, null).setAutoPadding(false)
  const open = createDecipheriv('aes-256-ecb', settings.key, null).setAutoPadding(false)

  let batch: string[] = []
  let batchMadeMs = 0

  function sealBatch(nowMs: number): void {
    const blocks = Buffer.alloc(BATCH * BLOCK_BYTES)
    const first = window.nextBlock()
    // A clock that was set back to before the start makes nonces that live longer, not an unencodable time.
    const seconds = Math.max(0, Math.floor((nowMs - settings.epochMs) / 1000))
    for (let i = 0; i < BATCH; i++) {
      blocks.writeUIntBE(first + i, i * BLOCK_BYTES, 6)
      blocks.writeUInt32BE(seconds, i * BLOCK_BYTES + 6)
    }
    const sealed = seal.update(blocks)
    batch = []
    for (let i = 0; i < BATCH; i++) batch.push(sealed.toString('base64url', i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES))
    batchMadeMs = nowMs
  }

  /** The counter of an authentic, unexpired nonce. */
  function unseal(nonce: string, nowMs: number): number | undefined {
    const sealed = nonce.length === 22 ? decodeBase64url(nonce) : undefined
    if (!sealed) return undefined
    const block = open.update(sealed)
    if (block.readUIntBE(10, 6) !== 0) return undefined
    const ageSeconds = (nowMs - settings.epochMs) / 1000 - block.readUInt32BE(6)
    return ageSeconds <= settings.expirySeconds ? block.readUIntBE(0, 6) : undefined
  }

  return {
    issue(nowMs) {
      if (batch.length === 0 || nowMs - batchMadeMs > BATCH_LIFE_MS) sealBatch(nowMs)
      return batch.pop() as string
    },
    isAuthentic: (nonce, nowMs) => unseal(nonce, nowMs) !== undefined,
    redeem(nonce, nowMs) {
      const counter = unseal(nonce, nowMs)
      return counter !== undefined && window.redeem(counter)
    },
  }
}
