/**
 * Warns of certificates that expire, once for each threshold, and counts them.
 *
 * A certificate that has passed several thresholds since the last round gets the nearest alone.
 */

import { type ExpirationStore, isFullPage } from '../store/expiration-store.ts'

export interface ExpirationOptions {
  store: ExpirationStore
  warningDays: readonly number[]
  onWarned(warned: number): void
  onCounted(days: number, expiring: number): void
  isStopping(): boolean
}

const DAY_MS = 86_400_000

/** One round. @returns how many warnings it gave */
export async function warnOfExpiry(options: ExpirationOptions): Promise<number> {
  const { store, onWarned, onCounted, isStopping } = options
  const now = Date.now()
  const thresholds = [...new Set(options.warningDays)].toSorted((a, b) => a - b)
  let total = 0
  let expiring = 0
  for (const [index, days] of thresholds.entries()) {
    // What is nearer to its end belongs to the threshold below; what has expired, to none.
    const from = new Date(now + (thresholds[index - 1] ?? 0) * DAY_MS)
    const until = new Date(now + days * DAY_MS)
    for (let isFull = true; isFull && !isStopping(); ) {
      const page = await store.warn(days, from, until)
      total += page.warned
      onWarned(page.warned)
      isFull = isFullPage(page)
    }
    if (isStopping()) break
    // Within the thresholds below they are counted already: with millions of certificates this reads hundreds of thousands.
    expiring += await store.count(from, until)
    onCounted(days, expiring)
  }
  return total
}
