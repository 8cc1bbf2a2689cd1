/**
 * Anti-replay nonces (RFC 8555 §6.5), and those of `nonce.store: memory`: sealed under a key that lives as long as the
 * process. Which counters are used up is the replay window's business; nothing is stored, and a restart makes every
 * older nonce a badNonce.
 */

import type { ReplayWindow } from '../lib/replay-window.ts'
import { createNonceSeal } from './nonce-seal.ts'

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
  /**
   * Undefined when this server did not make the text or it has expired. Changes nothing, so it may run before the signature
   * check.
   */
  open(nonce: string, nowMs: number): OpenNonce | undefined
}

export interface OpenNonce {
  /** True exactly once for each issued nonce. */
  redeem(): boolean | Promise<boolean>
}

export function createNonces(settings: NonceSealSettings, window: ReplayWindow): Nonces {
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
