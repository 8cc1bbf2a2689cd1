/** Background tasks of notifications: warnings of expiry, and deletion of what is old. */

import type { BackgroundTask } from '../background/tasks.ts'
import type { Config } from '../config/schema.ts'
import type { Metrics } from '../ops/metrics.ts'
import { warnOfExpiry } from '../services/expiration.ts'
import { expirationSettings, noticeAges } from '../settings/notifications.ts'
import type { Database } from '../store/database.ts'
import { createExpirationStore } from '../store/expiration-store.ts'
import { deleteOldNotices } from '../store/notice-retention.ts'
import { EXPIRATION } from './background.ts'

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
