/** Remembers which accounts were seen and with which client, and writes it in batches outside any request. */

import { LruMap } from '../shared/lib/caching.ts'
import { printable } from '../shared/lib/terminal.ts'
import type { SeenAccount } from '../store/account-activity-store.ts'

/** How exactly `last_seen_at` is known. */
const APART_MS = 3_600_000
const MOST_REMEMBERED = 10_000
const MOST_WAITING = 10_000
const MOST_OF_USER_AGENT = 200

/** What waits is lost in a crash. */
export class AccountActivity {
  readonly #record: (seen: readonly SeenAccount[]) => Promise<void>
  readonly #noted = new LruMap<string, true>(MOST_REMEMBERED, APART_MS)
  #waiting: SeenAccount[] = []

  constructor(record: (seen: readonly SeenAccount[]) => Promise<void>) {
    this.#record = record
  }

  /** @param userAgent as the client sent it */
  seen(accountId: string, userAgent: string | undefined, seenAt: Date): void {
    if (this.#noted.get(accountId) || this.#waiting.length >= MOST_WAITING) return
    this.#noted.set(accountId, true)
    this.#waiting.push({ accountId, userAgent: shown(userAgent), seenAt })
  }

  /** Tried again with the next request of an account when it fails. */
  async write(): Promise<void> {
    const waiting = this.#waiting
    if (waiting.length === 0) return
    this.#waiting = []
    try {
      await this.#record(waiting)
    } catch (error) {
      for (const { accountId } of waiting) this.#noted.delete(accountId)
      throw error
    }
  }
}

const shown = (sent: string | undefined): string | null =>
  sent === undefined ? null : printable(sent.slice(0, MOST_OF_USER_AGENT)).slice(0, MOST_OF_USER_AGENT)
