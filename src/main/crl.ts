/**
 * CRLs in the supervisor: the builder with its thread and schedule, the served lists, and their
 * health.
 */

import type { Logger } from 'pino'
import { createCrlPool } from '../../workers/crl-pool.ts'
import { startLoop } from '../background/loop.ts'
import type { CaBackend } from '../ca/backend.ts'
import type { Config } from '../config/schema.ts'
import { crlName } from '../domain/crl-shard.ts'
import type { HealthReport } from '../ops/health.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { CrlBuilder, issuerKeyOf, MalformedCrl } from '../services/crl-builder.ts'
import { type CrlCache, createCrlCache } from '../services/crl-cache.ts'
import { startSchedule } from '../shared/lib/cron.ts'
import type { SharedCrl } from './messages.ts'
import { crlPolicy, defaultIssuerId } from './settings/issuance.ts'
import type { Stores } from './wiring.ts'

export interface CrlParts {
  config: Config
  stores: Pick<Stores, 'crls' | 'certificates'>
  ca: CaBackend
  metrics: Metrics
  log: Logger
  isStopping(): boolean
}

export interface Crls {
  builder: CrlBuilder
  shared(): readonly SharedCrl[]
  /** Reads new lists now. @throws database errors */
  refresh(): Promise<void>
  /** Calls `share` with the lists at every check, even when none has changed. */
  follow(share: (crls: readonly SharedCrl[]) => void): void
  health(): NonNullable<HealthReport['checks']['crl']>
  stop(): Promise<void>
}

const LOOK_MS = 1_000
/** Extra time beyond the schedule for a build on a busy machine. */
const GRACE_MS = 60_000

/** @throws database errors */
export async function startCrls({ config, stores, ca, metrics, log, isStopping }: CrlParts): Promise<Crls> {
  const policy = crlPolicy(config)
  if (policy.shards > 1) await stores.crls.useShards(policy.shards)
  let share: (crls: readonly SharedCrl[]) => void = () => {}
  const cache = createCrlCache(stores.crls, () => share(shared()))
  function shared(): SharedCrl[] {
    const id = defaultIssuerId(config, ca)
    return cache.served().map((crl) => ({ ...crl, isDefault: crl.name === id }))
  }
  const look = async () => {
    await cache.refresh()
    report(cache, metrics)
  }
  await look()
  beginAtZero(metrics.crlFailures, ...ca.issuers().map(({ id }) => ({ crl: id })))

  // Started after everything that may fail, because thread and schedule run until they are stopped.
  const pool = createCrlPool((error) => log.error({ err: error }, 'CRL thread failed'))
  let scheduledAt: Date | undefined
  const schedule =
    config.crl.schedule === null
      ? undefined
      : startSchedule(config.crl.schedule, (at) => {
          scheduledAt = at
        })

  const builder = new CrlBuilder(
    {
      store: stores.crls,
      certificates: stores.certificates,
      ca,
      encode: pool.encode,
      scheduledAt: () => scheduledAt,
      isStopping,
      events: {
        built({ name, number, entries, bytes, seconds }) {
          metrics.crlBuilds.inc({ crl: name })
          metrics.crlBuildSeconds.set({ crl: name }, seconds)
          const facts = { crl: name, number: String(number), entries, bytes, ms: Math.round(seconds * 1000) }
          log.info({ event: 'crl_published', ...facts }, 'CRL published')
          look().catch((error) => log.debug({ err: error }, 'published CRLs could not be read'))
        },
        failed(name, error) {
          metrics.crlFailures.inc({ crl: name })
          if (error instanceof MalformedCrl) metrics.alarms.inc()
          log.error({ event: 'crl_failed', crl: name, err: error }, 'the CRL could not be built; it is tried again')
        },
      },
    },
    policy,
  )

  function isStale(): boolean {
    const now = Date.now()
    const overdue = ({ thisUpdate, nextUpdate, startedAt }: ReturnType<CrlCache['published']>[number]) => {
      const dueAt = policy.intervalMs === undefined ? scheduledAt?.getTime() : thisUpdate.getTime() + policy.intervalMs
      const graceMs = GRACE_MS + (policy.intervalMs ?? 0)
      const isLate = dueAt !== undefined && startedAt.getTime() < dueAt && now > dueAt + graceMs
      return isLate || now >= nextUpdate.getTime()
    }
    return ca.issuers().some(({ nameDer, keyIdentifier }) => {
      const issuerKey = issuerKeyOf(nameDer, keyIdentifier)
      const lists = cache.published().filter((crl) => crl.issuerKey.equals(issuerKey))
      return lists.length === 0 || lists.some(overdue)
    })
  }

  let loop: ReturnType<typeof startLoop> | undefined
  return {
    builder,
    shared,
    refresh: look,
    follow(next) {
      share = next
      loop = startLoop({
        name: 'crl_follow',
        intervalMs: LOOK_MS,
        async round() {
          await look()
          // Shares again for a thread that was starting when the lists changed.
          share(shared())
        },
        onError: (_, error) => log.debug({ err: error }, 'published CRLs could not be read'),
      })
    },
    health() {
      const stale = isStale()
      return { status: stale ? 'error' : 'ok', stale }
    },
    async stop() {
      await schedule?.stop()
      await loop?.stop()
      await pool.close()
    },
  }
}

function report(cache: CrlCache, metrics: Metrics): void {
  for (const crl of cache.published()) {
    const label = { crl: crlName(crl.issuerId, crl) }
    beginAtZero(metrics.crlFailures, label)
    metrics.crlNumber.set(label, Number(crl.number))
    metrics.crlEntries.set(label, crl.entries)
    metrics.crlBytes.set(label, crl.bytes)
    metrics.crlThisUpdate.set(label, crl.thisUpdate.getTime() / 1000)
    metrics.crlNextUpdate.set(label, crl.nextUpdate.getTime() / 1000)
  }
}
