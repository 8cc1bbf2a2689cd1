/** Background tasks of notifications: warnings of expiry, and deletion of what is old. */

import type { Config } from '../config/schema.ts'
import type { Metrics } from '../ops/metrics.ts'
import { expirationSettings, noticeAges } from '../settings/event-settings.ts'
import type { Database } from '../store/database.ts'
import { createExpirationStore, type ExpirationStore, isFullPage } from '../store/expiration-store.ts'
import { deleteOldNotices } from '../store/retention-store.ts'
import { EXPIRATION } from './background.ts'
import type { BackgroundTask } from './background-tasks.ts'

export interface ExpirationParts {
  config: Config
  /** The configuration after the last SIGHUP. */
  live(): Config
  db: Database
  metrics: Metrics
  isStopping(): boolean
}

export function expirationTasks({ config, live, db, metrics, isStopping }: ExpirationParts): BackgroundTask[] {
  const store = createExpirationStore(db)
  const warnings: BackgroundTask = {
    name: EXPIRATION,
    role: 'expiration',
    intervalMs: () => expirationSettings(live()).intervalMs,
    async round() {
      const { enabled, warningDays } = expirationSettings(live())
      metrics.certificatesExpiring.reset()
      // A mark without a mail would silence the warning for good.
      if (!enabled) return undefined
      return warnOfExpiry({
        store,
        warningDays,
        onWarned: (warned) => metrics.expirationWarnings.inc(warned),
        onCounted: (days, expiring) => metrics.certificatesExpiring.set({ days: String(days) }, expiring),
        isStopping,
      })
    },
  }
  const retention: BackgroundTask = {
    name: 'notice_retention',
    role: 'retention',
    intervalMs: config.retention.cleanup_interval_seconds * 1000,
    round: () => deleteOldNotices(db, noticeAges(config), isStopping),
  }
  return [warnings, ...(config.retention.enabled ? [retention] : [])]
}

interface ExpirationOptions {
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
    // A certificate nearer to its end belongs to the threshold below, an expired one to none.
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
