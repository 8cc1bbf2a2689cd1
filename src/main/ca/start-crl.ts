/** CRLs in the supervisor: the builder with its thread and schedule, the served lists, and their health. */

import { createCrlPool } from '../../../workers/crl-pool.ts'
import type { CaBackend } from '../../ca/backend.ts'
import { connectionTrouble } from '../../ca/signer-check.ts'
import type { Config } from '../../config/schema.ts'
import { crlName, issuerKeyOf } from '../../domain/crl-scope.ts'
import type { HealthReport } from '../../domain/health.ts'
import { beginAtZero, type Metrics } from '../../ops/metrics.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'
import { type CrlAlarm, CrlAlarms, troubleOf } from '../../services/crl/crl-alarms.ts'
import { CrlBuilder, type CrlBuilderParts, type CrlEvents, type CrlPolicy } from '../../services/crl/crl-builder.ts'
import { type CrlCache, createCrlCache } from '../../services/crl/crl-cache.ts'
import type { Reconciliation } from '../../services/reconcile/reconciliation.ts'
import { crlPolicy, defaultIssuerId } from '../../settings/issuance-settings.ts'
import { type Schedule, startSchedule } from '../../shared/lib/cron.ts'
import type { CrlPart, CrlStore, PublishedCrl } from '../../store/crl-store.ts'
import type { SharedCrls } from '../messages.ts'
import { type Reporting, raiseAlarm } from '../service-events.ts'
import type { StartContext } from '../start-context.ts'
import type { DatabasePart } from '../start-database.ts'
import type { Stores } from '../stores.ts'
import type { CaPart, IssuancePart } from './start-ca.ts'

interface CrlParts extends Reporting {
  config: Config
  stores: Pick<Stores, 'crls' | 'certificates'>
  ca: CaBackend
  /** Undefined when no certificate is signed here. */
  reconciliation: Reconciliation | undefined
  isStopping(): boolean
}

const AWAY = 'the signer does not say which CRLs it has signed; they are served when it does'
const LOOK_MS = 1_000
/** Extra time beyond the schedule for a build on a busy machine. */
const GRACE_MS = 60_000

/** @returns undefined when no CRL is published. @throws database errors */
export async function startCrls(
  { config, metrics, log, parts, now, onStep }: StartContext,
  { presence, eventWriter }: DatabasePart,
  { ca }: Pick<CaPart, 'ca'>,
  { stores }: Pick<IssuancePart, 'stores'>,
  reconciliation: Reconciliation | undefined,
): Promise<Crls | undefined> {
  if (!config.crl.enabled) return undefined
  const policy = crlPolicy(config)
  await stores.crls.useShards(policy.shards)
  await reconciliation?.look().catch((error: Error) => log.warn({ reason: error.message }, AWAY))
  const newestSigned = newestSignedBy(reconciliation, policy)
  const cache = createCrlCache(stores.crls, (crl) => newestSigned(crl.issuerId, crl.issuerKey, crl))
  await cache.refresh()
  report(cache, metrics)
  beginAtZero(metrics.crlFailures, ...ca.issuers().map(({ id }) => ({ crl: id })))
  const isStopping = () => now.stopping
  // Made after everything that may fail, because its thread and schedule run until it is stopped.
  const crls = new Crls({ config, stores, ca, metrics, log, eventWriter, reconciliation, isStopping }, policy, cache)
  parts.add('CRLs', crls, (one) => one.stop())
  // The first certificate already names its list. If another instance leads, that instance builds it.
  if (crls.shared().lists.length === 0) {
    onStep('building the first CRL')
    const building = { ca, reconciliation, crls: { builder: crls.builder, store: stores.crls } }
    await presence.lead('crl', async () => void (await crlRound(building)))
    await crls.refresh()
  }
  return crls
}

export class Crls {
  readonly builder: CrlBuilder
  readonly #parts: CrlParts
  readonly #policy: CrlPolicy
  readonly #cache: CrlCache
  readonly #pool: ReturnType<typeof createCrlPool>
  readonly #schedule: Schedule | undefined
  /** The lists of each issuer that certificates name from now on. */
  readonly #named: readonly CrlPart[]
  readonly #alarms = new CrlAlarms((alarm) => this.#raise(alarm))
  #scheduledAt: Date | undefined
  #loop: Loop | undefined
  #share: (crls: SharedCrls) => void = () => {}

  constructor(parts: CrlParts, policy: CrlPolicy, cache: CrlCache) {
    const { config, stores, ca, log, reconciliation, isStopping } = parts
    this.#parts = parts
    this.#policy = policy
    this.#cache = cache
    const { shards } = policy
    this.#named = Array.from({ length: shards }, (_, shard) => ({ shards, shard }))
    this.#pool = createCrlPool((error) => log.error({ err: error }, 'CRL thread failed'))
    if (config.crl.schedule !== null)
      this.#schedule = startSchedule(config.crl.schedule, (at) => {
        this.#scheduledAt = at
      })
    const signed = newestSignedBy(reconciliation, policy)
    const builderParts: CrlBuilderParts = {
      store: stores.crls,
      certificates: stores.certificates,
      ca,
      encode: this.#pool.encode,
      requireCompared: async () => reconciliation?.requireCompared(),
      newestSigned: ({ id, issuerKey }, part) => signed(id, issuerKey, part),
      scheduledAt: () => this.#scheduledAt,
      isStopping,
      events: this.#builderEvents(),
    }
    this.builder = new CrlBuilder(builderParts, policy)
  }

  /** The published lists, for the front threads. */
  shared(): SharedCrls {
    const id = defaultIssuerId(this.#parts.config, this.#parts.ca)
    const lists = this.#cache.served().map((crl) => ({ ...crl, isDefault: crl.name === id }))
    const served = new Set(lists.map(({ name }) => name))
    const unbuilt = this.#parts.ca.issuers().flatMap(({ id }) => this.#named.map((part) => crlName(id, part)))
    return { lists, withheld: [...this.#cache.withheld(), ...unbuilt.filter((name) => !served.has(name))] }
  }

  /** Reads the lists now, and shares them. @throws database errors */
  async refresh(): Promise<void> {
    await this.#cache.refresh()
    report(this.#cache, this.#parts.metrics)
    this.#share(this.shared())
  }

  /**
   * Calls `share` with the lists at every check, even when none has changed: a thread may have been
   * starting when they did.
   */
  follow(share: (crls: SharedCrls) => void): void {
    this.#share = share
    this.#loop = startLoop({
      name: 'crl_follow',
      intervalMs: LOOK_MS,
      round: () => this.refresh(),
      onError: (_, error) => this.#unreadable(error),
    })
  }

  /** Raises an alarm for each list that has become overdue; for the instance that builds them. */
  watch(): void {
    this.#alarms.overdue(this.#overdue().map(({ crl }) => ({ ...crl, name: crlName(crl.issuerId, crl) })))
  }

  health(): NonNullable<HealthReport['checks']['crl']> {
    const overdue = this.#overdue()
    const isMissing = this.#isMissing()
    const isError = isMissing || overdue.some(({ trouble }) => trouble === 'late')
    return { status: isError ? 'error' : 'ok', stale: isMissing || overdue.length > 0 }
  }

  async stop(): Promise<void> {
    await this.#schedule?.stop()
    await this.#loop?.stop()
    await this.#pool.close()
  }

  #builderEvents(): CrlEvents {
    const { metrics, log } = this.#parts
    return {
      built: ({ name, number, entries, bytes, seconds }) => {
        this.#alarms.published(name)
        metrics.crlBuilds.inc({ crl: name })
        metrics.crlBuildSeconds.set({ crl: name }, seconds)
        const facts = { crl: name, number: String(number), entries, bytes, ms: Math.round(seconds * 1000) }
        log.info({ event: 'crl_published', ...facts }, 'CRL published')
        this.refresh().catch((error) => this.#unreadable(error))
      },
      failed: (name, error) => {
        metrics.crlFailures.inc({ crl: name })
        this.#alarms.failed(name, error)
        log.error({ event: 'crl_failed', crl: name, err: error }, 'the CRL could not be built; it is tried again')
      },
      duplicates: (name, count) =>
        log.warn(
          { event: 'crl_duplicates', crl: name, count },
          'revoked certificates are recorded under two certificates of their issuer; the CRL has each once',
        ),
    }
  }

  #unreadable(error: unknown): void {
    this.#parts.log.debug({ err: error }, 'published CRLs could not be read')
  }

  #raise({ crl, message, reason }: CrlAlarm): void {
    raiseAlarm(this.#parts, `crl ${crl}`, { message, crl, reason }, { crl })
  }

  #ofIssuers(): PublishedCrl[][] {
    return this.#parts.ca.issuers().map(({ nameDer, keyIdentifier }) => {
      const issuerKey = issuerKeyOf(nameDer, keyIdentifier)
      return this.#cache.published().filter((crl) => crl.issuerKey.equals(issuerKey))
    })
  }

  #isMissing(): boolean {
    const isIn = (lists: readonly PublishedCrl[]) => (part: CrlPart) =>
      lists.some(({ shards, shard }) => shards === part.shards && shard === part.shard)
    return this.#ofIssuers().some((lists) => !this.#named.every(isIn(lists)))
  }

  #overdue() {
    const now = Date.now()
    const { intervalMs } = this.#policy
    const graceMs = GRACE_MS + (intervalMs ?? 0)
    return this.#ofIssuers()
      .flat()
      .flatMap((crl) => {
        const dueAt = intervalMs === undefined ? this.#scheduledAt?.getTime() : crl.thisUpdate.getTime() + intervalMs
        const trouble = troubleOf(crl, now, { dueAt, graceMs })
        return trouble ? [{ crl, trouble }] : []
      })
  }
}

interface CrlRoundParts {
  ca: Pick<CaBackend, 'outage' | 'unreachable'>
  /** Undefined when no certificate is signed here. */
  reconciliation: Pick<Reconciliation, 'round'> | undefined
  /** Undefined when no CRL is published. */
  crls: { builder: Pick<CrlBuilder, 'round'>; store: Pick<CrlStore, 'noteObstacle'> } | undefined
}

/**
 * No list is built without a signer, nor from a database that lacks what the signer has recorded. The noted obstacle
 * tells `chancery crl rebuild` why it waits.
 * @returns how many lists were published
 * @throws errors of the database, and of the signer that does not say what it has recorded
 */
export async function crlRound({ ca, reconciliation, crls }: CrlRoundParts): Promise<number> {
  const failure = ca.unreachable()
  const behind = failure ? connectionTrouble(failure) : await reconciliation?.round()
  const obstacle = behind ?? ca.outage()?.reason
  if (obstacle === undefined) return crls?.builder.round() ?? 0
  await crls?.store.noteObstacle(obstacle)
  return 0
}

/** Without a signer here, and with one that keeps no records, every list counts as the newest. */
function newestSignedBy(reconciliation: Reconciliation | undefined, policy: CrlPolicy) {
  return (issuerId: string, issuerKey: Buffer, { shards, shard }: CrlPart): bigint | undefined => {
    if (!reconciliation) return 0n
    return reconciliation.newestSigned(issuerKey, shards === 1 ? '' : policy.urlOf(issuerId, shards, shard))
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
