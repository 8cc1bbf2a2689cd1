/** The list of background tasks. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { ExtensionThreadData } from '../../workers/extension/extension-task.ts'
import type { Config } from '../config/schema.ts'
import { type ArchiveOptions, archiveExpired } from '../services/archive/archive.ts'
import { deleteOld, type ExpiringKind, expireOverdue, type RetainedTable } from '../services/archive/retention.ts'
import { adoptChallenges } from '../services/challenge-adoption.ts'
import { CLOCK_ROUND_MS, createClockUpkeep } from '../services/clock-upkeep.ts'
import type { CrlBuilder } from '../services/crl/crl-builder.ts'
import type { Issuance } from '../services/issuance.ts'
import type { Reconciliation } from '../services/reconcile/reconciliation.ts'
import { type RecoveryOptions, recoverIssuances } from '../services/recovery.ts'
import type { ValidationDispatcher } from '../services/validation-dispatcher.ts'
import { expirationSettings, noticeAges } from '../settings/event-settings.ts'
import { archivePolicy, expiryLifetimes, retentionPolicy } from '../settings/order-settings.ts'
import { nonceAuditSeconds, nonceLifetimeSeconds } from '../settings/server-settings.ts'
import { adoptionRules } from '../settings/validation-settings.ts'
import type { Database } from '../store/database.ts'
import { createExpirationStore, type ExpirationStore, isFullPage } from '../store/expiration-store.ts'
import type { ExpiryPage } from '../store/expiry-store.ts'
import { deleteOldNotices, type RetentionPage } from '../store/retention-store.ts'
import type { AdminThread } from './admin/start-admin.ts'
import type { BackgroundTask } from './background-tasks.ts'
import { crlRound } from './ca/start-crl.ts'
import { compromisedKeysTask, type Noting, type ThreadParts } from './ca/start-issuance.ts'
import type { Stores } from './stores.ts'

const RECOVERY_INTERVAL_MS = 2_000
export const ADOPTION = 'challenge_adoption'
export const EXPIRATION = 'expiration_warnings'
/** Publishes a revocation within 5 s. Revocations between two rounds share a list. */
const CRL_LOOK_MS = 1_000
const QUOTA_SWEEP_INTERVAL_MS = 3_600_000
/** A first cut of a year's entries. */
const AUDIT_CUT_DEADLINE_MS = 600_000
const DAY_MS = 86_400_000

export interface BackgroundParts extends Pick<ThreadParts, 'log' | 'metrics'>, Noting {
  ca: Noting['ca'] & Pick<ThreadParts['ca'], 'outage'>
  config: Config
  db: Database
  /** The configuration after the last SIGHUP. */
  live(): Config
  extensions: ExtensionThreadData
  instanceId: number
  stores: Stores
  issuance: Issuance
  dispatcher: ValidationDispatcher
  onRecovered: RecoveryOptions['onRecovered']
  onExpired(kind: ExpiringKind, page: ExpiryPage): void
  onDeleted(table: RetainedTable, page: RetentionPage, seconds: number): void
  onArchived: ArchiveOptions['onArchived']
  onRemoved: ArchiveOptions['onRemoved']
  onClockJump(seconds: number): void
  /** The database that was compared last. */
  incarnation(): string | undefined
  presentSince(): number | undefined
  /** Undefined when no CRL is published. */
  crls: { builder: CrlBuilder; watch(): void } | undefined
  /** Undefined when no certificate is signed here. */
  reconciliation: Reconciliation | undefined
  /** Undefined when the Admin API is off. */
  admin: AdminThread | undefined
  isStopping(): boolean
}

export function backgroundTasks(parts: BackgroundParts): BackgroundTask[] {
  const { config, crls, reconciliation, admin } = parts
  return [
    recoveryTask(parts),
    expiryTask(parts),
    ...(config.retention.enabled ? [retentionTask(parts)] : []),
    ...archiveTasks(parts),
    clockTask(parts),
    adoptionTask(parts),
    ...(admin && config.audit_retention.enabled ? [auditRetentionTask(parts, admin)] : []),
    ...(crls || reconciliation ? [crlTask(parts)] : []),
    compromisedKeysTask(parts),
    ...sweepTasks(parts),
    ...expirationTasks(parts),
  ]
}

function recoveryTask({ config, instanceId, stores, issuance, ca, onRecovered }: BackgroundParts): BackgroundTask {
  const { order } = config
  // A thread may still be working on a younger intent.
  const ownAfterSeconds = config.ca.signer.timeout_seconds + 5
  return {
    name: 'stale_processing_recovery',
    role: 'cleanup',
    intervalMs: RECOVERY_INTERVAL_MS,
    round() {
      return recoverIssuances({
        store: stores.issuance,
        complete: (issuing, isUnsigned) => issuance.recover(issuing, isUnsigned),
        canSign: ca.outage() === undefined,
        timeoutSeconds: config.ca.deferred_signing_timeout,
        instanceId,
        ownAfterSeconds,
        othersAfterSeconds: Math.max(order.stale_processing_threshold_seconds, ownAfterSeconds),
        onRecovered,
      })
    },
  }
}

function expiryTask({ config, stores, onExpired, isStopping }: BackgroundParts): BackgroundTask {
  return {
    name: 'order_expiry',
    role: 'cleanup',
    intervalMs: config.order.cleanup_interval_seconds * 1000,
    round: () => expireOverdue({ store: stores.expiry, lifetimes: expiryLifetimes(config), onExpired, isStopping }),
  }
}

function retentionTask({ config, stores, onDeleted, isStopping }: BackgroundParts): BackgroundTask {
  return {
    name: 'retention',
    role: 'retention',
    intervalMs: config.retention.cleanup_loop_interval_seconds * 1000,
    round: () =>
      deleteOld({
        store: stores.retention,
        policy: retentionPolicy(config),
        onDeleted,
        isStopping,
        rest: (ms) => sleep(ms),
      }),
  }
}

function archiveTasks({ config, stores, crls, onArchived, onRemoved, isStopping }: BackgroundParts): BackgroundTask[] {
  const policy = archivePolicy(config)
  if (!policy) return []
  const round = () =>
    archiveExpired({
      store: stores.archive,
      progress: stores.retention,
      policy,
      // Without CRLs, a revocation has no list to stay on.
      leftLists: () => (crls ? crls.builder.leftBefore() : stores.retention.now()),
      onArchived,
      onRemoved,
      isStopping,
      rest: (ms) => sleep(ms),
    })
  return [
    {
      name: 'certificate_archive',
      role: 'archive',
      intervalMs: config.retention.cleanup_loop_interval_seconds * 1000,
      round,
    },
  ]
}

function clockTask({ stores, onClockJump, incarnation }: BackgroundParts): BackgroundTask {
  const round = createClockUpkeep({ store: stores.clock, onJump: onClockJump, incarnation })
  return { name: 'clock', role: 'cleanup', intervalMs: CLOCK_ROUND_MS, round }
}

/** The admin thread has the key of the log's chain. */
function auditRetentionTask(
  { config: { audit_retention }, stores }: BackgroundParts,
  admin: AdminThread,
): BackgroundTask {
  const { max_age_days, cleanup_interval_seconds } = audit_retention
  return {
    name: 'audit_retention',
    role: 'audit',
    intervalMs: cleanup_interval_seconds * 1000,
    async round() {
      const before = (await stores.retention.now()).getTime() - max_age_days * DAY_MS
      return admin.ref.ask('cutAuditLog', new Date(before), AUDIT_CUT_DEADLINE_MS)
    },
  }
}

function adoptionTask(parts: BackgroundParts): BackgroundTask {
  const { config, extensions, instanceId, stores, dispatcher, presentSince } = parts
  const pollMs = config.challenges.background_worker.poll_seconds * 1000
  const roundsPerPoll = Math.ceil(pollMs / RECOVERY_INTERVAL_MS)
  let rounds = 0
  return {
    name: ADOPTION,
    role: 'challenge',
    // Challenges of a dead instance are adopted before the next poll.
    intervalMs: pollMs / roundsPerPoll,
    round: () =>
      adoptChallenges({
        store: stores.authorizations,
        instanceId,
        rules: adoptionRules(config, extensions, rounds++ % roundsPerPoll === 0),
        dispatcher,
        presentSince,
      }),
  }
}

/** Where no CRL is published, the database is compared with the signer all the same. */
function crlTask({ stores, ca, crls, reconciliation }: BackgroundParts): BackgroundTask {
  const lists = crls && { builder: crls.builder, store: stores.crls }
  return {
    name: crls ? 'crl_rebuild' : 'signer_comparison',
    role: 'crl',
    intervalMs: CRL_LOOK_MS,
    round() {
      crls?.watch()
      return crlRound({ ca, reconciliation, crls: lists })
    },
  }
}

/** These remove what an earlier release has left, and counters that are no longer needed. */
function sweepTasks({ config, live, stores }: BackgroundParts): BackgroundTask[] {
  return [
    {
      name: 'rate_limit_gc',
      role: 'cleanup',
      intervalMs: () => live().security.rate_limits.gc_interval_seconds * 1000,
      round: () => stores.rateLimits.sweep(live().security.rate_limits.gc_max_age_seconds),
    },
    { name: 'certificate_names', role: 'cleanup', intervalMs: CLOCK_ROUND_MS, round: stores.renameCertificates },
    { name: 'quota_gc', role: 'cleanup', intervalMs: QUOTA_SWEEP_INTERVAL_MS, round: () => stores.usage.sweep() },
    {
      name: 'nonce_gc',
      role: 'cleanup',
      intervalMs: config.nonce.gc_interval_seconds * 1000,
      round: async () => {
        const redeemed = await stores.nonces.sweep(nonceLifetimeSeconds(config))
        // Also while it is switched off: what was recorded still leaves in its time.
        return redeemed + (await stores.nonceAudit.sweep(nonceAuditSeconds(config)))
      },
    },
  ]
}

/** Warnings of expiry, and the deletion of old notices. */
function expirationTasks({ config, live, db, metrics, isStopping }: BackgroundParts): BackgroundTask[] {
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
