/**
 * Anti-replay nonces (RFC 8555 §6.5), and the source for `nonce.store: memory`.
 *
 * Its nonces are sealed under a key that lives as long as the process. The replay window records
 * used counters. Nothing is stored: after a restart every older nonce is a badNonce.
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
