/** The service's database: schema, pool, this instance's presence, and nonce storage. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import type { EventWriter } from '../events/event-writer.ts'
import { lifeLog } from '../ops/logging.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'
import { loadBlockedKeys } from '../services/blocked-keys.ts'
import { epochLifeSeconds, makeNonceKey } from '../services/stored-nonces.ts'
import { databaseSettings, nonceLifetimeSeconds } from '../settings/server-settings.ts'
import { revokeAccountsOfBlockedKeys } from '../store/blocked-key-list.ts'
import { type Database, isUnavailable, openDatabase } from '../store/database.ts'
import { announceInstance, type InstancePresence } from '../store/instance-presence.ts'
import { createNonceStore, MOST_AHEAD_SECONDS } from '../store/nonce-store.ts'
import { migrate } from '../store/schema/migrate.ts'
import { requireUsableSchema } from '../store/schema/schema-state.ts'
import { sparingly } from '../store/schema/waiting.ts'
import { durabilityWarnings, requireOwnSessions } from '../store/session.ts'
import type { StartContext } from './start-context.ts'
import { createEventWriter } from './stores.ts'

/** PostgreSQL notices a dead predecessor's closed socket within this time. */
const PREDECESSOR_GRACE_MS = 5_000

export interface DatabasePart {
  db: Database
  presence: InstancePresence
  eventWriter: EventWriter
  /** When it is on, no session begins in a database whose decisions were not compared. */
  gate: { isOn: boolean }
}

/** May run while the database is unreachable. */
export async function prepareSchema(config: Config, log: Logger): Promise<void> {
  const settings = databaseSettings(config)
  await requireOwnSessions(settings)
  if (config.database.auto_setup)
    await migrate(settings, { report: sparingly((progress) => log.info({ progress }, 'the database is migrated')) })
  const { unknown, oldestRelease } = await requireUsableSchema(settings)
  if (unknown.length > 0)
    log.warn(
      { unknown, oldest_release: oldestRelease },
      'the database has the schema of a newer release, which serves this one, too',
    )
}

export async function startDatabase({ config, log, metrics, parts, now }: StartContext): Promise<DatabasePart> {
  const gate = { isOn: false }
  const opened = openDatabase({ ...databaseSettings(config), requireCompared: () => gate.isOn }, (error) =>
    log.warn({ reason: error.message }, 'database connection lost'),
  )
  const db = parts.add('database', opened, (one) => one.close())
  const eventWriter = parts.add('event writer', createEventWriter(db, log, metrics), (one) => one.close())
  for (const warning of await durabilityWarnings(db)) log.warn({ event: 'database_durability' }, warning)
  await applyBlockedKeys(config, db, log)
  const announced = await announceInstance(databaseSettings(config), (error) => {
    if (!now.stopping) log.warn({ reason: error.message }, 'presence connection lost')
  })
  const presence = parts.add('presence', announced, (one) => one.close())
  // A migration that excludes this release may have come before its presence could keep it away.
  await requireUsableSchema(databaseSettings(config))
  if (config.nonce.store === 'memory') await requireNonceOwnership(presence)
  else {
    const epochs = await keepNonceEpochs(config, db, (error) =>
      log.warn({ reason: (error as Error).message }, 'the key epoch of nonces could not be renewed'),
    )
    parts.add('nonce epochs', epochs, (one) => one.stop())
  }
  return { db, presence, eventWriter, gate }
}

/**
 * `nonce.store: memory` keeps used nonces in this process. A second instance would refuse most
 * nonces of the first, so it does not start.
 */
async function requireNonceOwnership(presence: InstancePresence): Promise<void> {
  const deadline = performance.now() + PREDECESSOR_GRACE_MS
  while ((await presence.liveInstances()).length > 1) {
    if (performance.now() > deadline)
      throw new Error(
        'another instance is running on this database, and nonce.store is memory: nonces of one instance mean nothing to the other; stop it first',
      )
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** Called at the start and at SIGHUP. */
export async function applyBlockedKeys({ security }: Config, db: Database, log: Logger): Promise<void> {
  if (security.blocked_keys_file !== null) {
    const listed = await loadBlockedKeys(security.blocked_keys_file, db)
    log.info({ event: 'blocked_keys', ...listed }, 'blocked keys read')
  }
  const accounts = await revokeAccountsOfBlockedKeys(db)
  if (accounts > 0) log.warn({ event: 'accounts_revoked', accounts }, 'accounts revoked whose keys are blocked')
}

const PAUSE_MS = 1_000
const REMIND_MS = 10_000

/** A signal arrived before the service was up. */
export class StartAbandoned extends Error {}

/**
 * The wait for an unreachable database, for example after a reboot. It lasts until a signal ends the process. Errors
 * that need a new configuration, such as a wrong password, end the start at once.
 *
 * Repeats `attempt` until the database answers it. Each new reason is logged, then every ten seconds.
 *
 * @throws StartAbandoned, or the error of `attempt` once the database is reachable
 */
export async function awaitDatabase<T>(attempt: () => Promise<T>, log: Logger, stopping: AbortSignal): Promise<T> {
  // Logged at any level: nothing else explains why the service does not answer.
  const life = lifeLog(log)
  let said: { reason: string; at: number } | undefined
  for (;;) {
    try {
      const result = await attempt()
      if (said) life.warn('the database is there')
      return result
    } catch (error) {
      if (stopping.aborted) throw new StartAbandoned()
      if (!(error instanceof Error) || !isAway(error)) throw error
      const now = performance.now()
      if (error.message !== said?.reason || now - said.at >= REMIND_MS) {
        life.warn({ reason: error.message }, 'waiting for the database')
        said = { reason: error.message, at: now }
      }
      // It rejects only when the service stops, which the next line asks.
      await sleep(PAUSE_MS, undefined, { signal: stopping }).catch(() => undefined)
      if (stopping.aborted) throw new StartAbandoned()
    }
  }
}

/** Name resolution may also start later than the service. */
function isAway(error: Error): boolean {
  const reason = error.cause ?? error
  return isUnavailable(reason) || /^(?:EAI_AGAIN|ENOTFOUND)$/.test(String((reason as NodeJS.ErrnoException).code))
}

/** A small part of the lead of a new epoch. */
const RENEW_MS = 500

/**
 * Renews the nonce epochs that instances share: creates the first epoch before any request, and each next one in time. Every instance tries; one
 * of them succeeds.
 */
async function keepNonceEpochs(config: Config, db: Database, onError: (error: unknown) => void): Promise<Loop> {
  const store = createNonceStore(db)
  const lifeSeconds = epochLifeSeconds(nonceLifetimeSeconds(config))
  const renew = async () => {
    const epochs = await store.epochs()
    const newest = epochs.at(-1)
    // The database's clock decides; the local clock only saves a query.
    const ageMs = newest ? Date.now() - newest.madeAtMs : Number.POSITIVE_INFINITY
    if (ageMs > -MOST_AHEAD_SECONDS * 1000 && ageMs < (lifeSeconds - 1) * 1000) return
    await store.renew(makeNonceKey, lifeSeconds)
  }
  await renew()
  return startLoop({
    name: 'nonce epochs',
    intervalMs: RENEW_MS,
    round: renew,
    onError: (_, error) => onError(error),
  })
}
