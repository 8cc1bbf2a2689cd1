/**
 * The record of used nonces (`nonce.audit_consumed`), written in batches behind the requests.
 *
 * A crash loses what waits, and so does a database that stays away.
 */

import type { Nonces } from '../shared/protocol/nonce.ts'
import type { ConsumedNonce, NonceAuditStore } from '../store/nonce-audit-store.ts'

const MAX_BATCH = 5_000
/** Ten seconds of a busy thread. */
const MAX_WAITING = 20_000

export class NonceAudit {
  readonly #store: Pick<NonceAuditStore, 'record'>
  readonly #onLost: (count: number) => void
  #waiting: ConsumedNonce[] = []
  #lost = 0

  constructor(store: Pick<NonceAuditStore, 'record'>, onLost: (count: number) => void) {
    this.#store = store
    this.#onLost = onLost
  }

  /** The same nonces, of which each that is redeemed is noted. */
  noting(nonces: Nonces): Nonces {
    return {
      ...nonces,
      open: (nonce, nowMs) => {
        const opened = nonces.open(nonce, nowMs)
        if (!opened) return undefined
        const note = (isRedeemed: boolean) => {
          if (isRedeemed) this.#note({ nonce, consumedAtMs: nowMs })
          return isRedeemed
        }
        return {
          redeem() {
            const redeemed = opened.redeem()
            return redeemed instanceof Promise ? redeemed.then(note) : note(redeemed)
          },
        }
      },
    }
  }

  #note(consumed: ConsumedNonce): void {
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push(consumed)
    else this.#lost++
  }

  /** @throws when the database does not take them; they wait then */
  async write(): Promise<void> {
    if (this.#lost > 0) this.#onLost(this.#lost)
    this.#lost = 0
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MAX_BATCH)
      await this.#store.record(batch)
      this.#waiting.splice(0, batch.length)
    }
  }
}
