/** Nonces, looked at, or looked at and used up. */

import type { Nonces } from '../../../src/shared/protocol/nonce.ts'

export function isAuthentic(nonces: Nonces, nonce: string, nowMs: number): boolean {
  return nonces.open(nonce, nowMs) !== undefined
}

export function redeem(nonces: Nonces, nonce: string, nowMs: number): boolean | Promise<boolean> {
  return nonces.open(nonce, nowMs)?.redeem() ?? false
}
