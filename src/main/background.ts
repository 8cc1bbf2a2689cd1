/** The list of background tasks, with the metrics and log lines of their rounds. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ExtensionThreadData } from '../../workers/extension/task.ts'
import type { BackgroundEvents, BackgroundTask } from '../background/tasks.ts'
import type { CaBackend } from '../ca/backend.ts'
import type { Config } from '../config/schema.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { adoptChallenges } from '../services/challenge-adoption.ts'
import type { CrlBuilder } from '../services/crl-builder.ts'
import { type ExpiringKind, expireOverdue } from '../services/expiry.ts'
import type { Issuance } from '../services/issuance.ts'
import { type RecoveryOptions, recoverIssuances } from '../services/recovery.ts'
import { deleteOld, type RetainedTable } from '../services/retention.ts'
import type { ValidationDispatcher } from '../services/validation-dispatcher.ts'
import type { ExpiryPage } from '../store/expiry-store.ts'
import type { RetentionPage } from '../store/retention-store.ts'
import { createFailureLog } from './failure-log.ts'
import { expiryLifetimes, retentionPolicy } from './settings/orders.ts'
import { nonceLifetimeSeconds } from './settings/server.ts'
import { adoptionRules } from './settings/validation.ts'
import { connectionTrouble } from './signer-check.ts'
import type { Stores } from './wiring.ts'

const RECOVERY_INTERVAL_MS = 2_000
const ADOPTION = 'challenge_adoption'
/** Publishes a revocation within 5 s. Revocations between two rounds share a list. */
const CRL_LOOK_MS = 1_000
const QUOTA_SWEEP_INTERVAL_MS = 3_600_000

export interface BackgroundParts {
  config: Config
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
  presentSince(): number | undefined
  /** `crls` is undefined when no CRL is published. */
  ca: Pick<CaBackend, 'outage' | 'unreachable'>
  crls: CrlBuilder | undefined
  isStopping(): boolean
}

export function backgroundTasks({
  config,
  live,
  extensions,
  instanceId,
  stores,
  issuance,
  ca,
  dispatcher,
  onRecovered,
  onExpired,
  onDeleted,
  presentSince,
  crls,
  isStopping,
}: BackgroundParts): BackgroundTask[] {
  const { background_worker: challengeWorker } = config.challenges
  const pollMs = challengeWorker.poll_seconds * 1000
  const roundsPerPoll = Math.ceil(pollMs / RECOVERY_INTERVAL_MS)
  let adoptions = 0
  /** Skips a round that needs signatures while the CA cannot sign. */
  const whileSigning = (round: () => Promise<number>) => async () => (ca.outage() ? 0 : round())
  return [
    {
      name: 'stale_processing_recovery',
      role: 'cleanup',
      intervalMs: RECOVERY_INTERVAL_MS,
      round: whileSigning(() =>
        recoverIssuances({
          store: stores.issuance,
          complete: (issuing) => issuance.recover(issuing),
          instanceId,
          // A thread may still be working on a younger intent.
          ownAfterSeconds: config.ca.signer.timeout_seconds + 5,
          othersAfterSeconds: Math.max(
            config.order.stale_processing_threshold_seconds,
            config.ca.signer.timeout_seconds + 5,
          ),
          onRecovered,
        }),
      ),
    },
    {
      name: 'order_expiry',
      role: 'cleanup',
      intervalMs: config.order.cleanup_interval_seconds * 1000,
      round: () => expireOverdue({ store: stores.expiry, lifetimes: expiryLifetimes(config), onExpired, isStopping }),
    },
    ...(config.retention.enabled
      ? [
          {
            name: 'retention',
            role: 'retention' as const,
            intervalMs: config.retention.cleanup_loop_interval_seconds * 1000,
            round: () =>
              deleteOld({
                store: stores.retention,
                policy: retentionPolicy(config),
                onDeleted,
                isStopping,
                rest: (ms) => sleep(ms),
              }),
          },
        ]
      : []),
    {
      name: ADOPTION,
      role: 'challenge',
      // Challenges of a dead instance are adopted before the next poll.
      intervalMs: pollMs / roundsPerPoll,
      round: () =>
        adoptChallenges({
          store: stores.authorizations,
          instanceId,
          rules: adoptionRules(config, extensions, adoptions++ % roundsPerPoll === 0),
          dispatcher,
          presentSince,
        }),
    },
    {
      name: 'rate_limit_gc',
      role: 'cleanup',
      intervalMs: () => live().security.rate_limits.gc_interval_seconds * 1000,
      round: () => stores.rateLimits.sweep(live().security.rate_limits.gc_max_age_seconds),
    },
    ...(crls
      ? [
          {
            name: 'crl_rebuild',
            role: 'crl' as const,
            intervalMs: CRL_LOOK_MS,
            round: () => crlRound(crls, stores.crls, ca),
          },
        ]
      : []),
    { name: 'quota_gc', role: 'cleanup', intervalMs: QUOTA_SWEEP_INTERVAL_MS, round: () => stores.usage.sweep() },
    {
      name: 'nonce_gc',
      role: 'cleanup',
      intervalMs: config.nonce.gc_interval_seconds * 1000,
      round: () => stores.nonces.sweep(nonceLifetimeSeconds(config)),
    },
  ]
}

/**
 * Builds no list without a signer. The noted obstacle tells `chancery crl rebuild` why it waits.
 */
async function crlRound(
  builder: CrlBuilder,
  store: Pick<Stores['crls'], 'noteObstacle'>,
  ca: BackgroundParts['ca'],
): Promise<number> {
  const failure = ca.unreachable()
  const obstacle = failure ? connectionTrouble(failure) : ca.outage()?.reason
  if (obstacle === undefined) return builder.round()
  await store.noteObstacle(obstacle)
  return 0
}

export function backgroundEvents(log: Logger, metrics: Metrics): BackgroundEvents {
  const failures = createFailureLog(log)
  return {
    began(task) {
      metrics.workerRuns.inc({ task })
      beginAtZero(metrics.workerErrors, { task })
      if (task === ADOPTION) metrics.challengeWorkerPolls.inc()
    },
    ended(task, taken) {
      // An adopted challenge counts as a retry.
      if (task === ADOPTION) metrics.challengesValidated.inc({ result: 'retry' }, taken)
      if (taken > 0) log.info({ task, taken }, 'background task has found work')
    },
    failed(task, error) {
      metrics.workerErrors.inc({ task })
      if (task === ADOPTION) metrics.challengeWorkerErrors.inc()
      failures.failed(task, error)
    },
    recovered: failures.recovered,
  }
}

/** Metrics and log lines of recovery, expiry and retention. */
export function workEvents(
  log: Logger,
  metrics: Metrics,
): Pick<BackgroundParts, 'onRecovered' | 'onExpired' | 'onDeleted'> {
  return {
    onRecovered({ certificateId, accountId, orderId }, outcome) {
      metrics.issuancesRecovered.inc({ outcome })
      log.warn({ certificateId, accountId, orderId, outcome }, 'interrupted issuance recovered')
    },
    onExpired(kind, { expired, challenges }) {
      const counter = { order: metrics.ordersExpired, authorization: metrics.authorizationsExpired }[kind]
      counter.inc(expired)
      metrics.challengesExpired.inc(challenges)
    },
    onDeleted(table, { deleted }, seconds) {
      metrics.retentionDeleted.inc({ table }, deleted)
      metrics.retentionPageSeconds.observe({ table }, seconds)
    },
  }
}
