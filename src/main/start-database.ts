/** The service's database: schema, pool, this instance's presence, and nonce storage. */

import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import { loadBlockedKeys } from '../services/blocked-keys.ts'
import type { EventWriter } from '../services/events/event-writer.ts'
import { databaseSettings } from '../settings/server.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { durabilityWarnings } from '../store/durability.ts'
import { announceInstance, type InstancePresence } from '../store/instance-presence.ts'
import { migrate, requireCurrentSchema } from '../store/migrate.ts'
import { GROUP_DISTANCE_MS } from '../store/pipeline.ts'
import { createEventWriter } from './event-writer.ts'
import { keepNonceEpochs } from './nonce-epochs.ts'
import type { StartContext } from './start-context.ts'

/** PostgreSQL notices a dead predecessor's closed socket within this time. */
const PREDECESSOR_GRACE_MS = 5_000

export interface DatabasePart {
  db: Database
  presence: InstancePresence
  eventWriter: EventWriter
}

/** May run while the database is unreachable. */
export async function prepareSchema(config: Config, log: Logger): Promise<void> {
  if (!config.database.auto_setup) return requireCurrentSchema(databaseSettings(config))
  for (const { name } of await migrate(databaseSettings(config))) log.info({ migration: name }, 'database migrated')
}

export async function startDatabase({ config, log, metrics, teardown, now }: StartContext): Promise<DatabasePart> {
  const db = openDatabase(databaseSettings(config), (error) =>
    log.warn({ reason: error.message }, 'database connection lost'),
  )
  // Validations end one by one, so a delay lets them share statements
  // (docs/decisions/statement-groups.md).
  db.pipeline.keepDistance(GROUP_DISTANCE_MS)
  teardown.add(() => db.close())
  const eventWriter = createEventWriter(db, log, metrics)
  teardown.add(() => eventWriter.close())
  for (const warning of await durabilityWarnings(db)) log.warn({ event: 'database_durability' }, warning)
  await applyBlockedKeys(config, db, log)
  const presence = await announceInstance(databaseSettings(config), (error) => {
    if (!now.stopping) log.warn({ reason: error.message }, 'presence connection lost')
  })
  teardown.add(() => presence.close())
  if (config.nonce.store === 'memory') await requireNonceOwnership(presence)
  else {
    const epochs = await keepNonceEpochs(config, db, (error) =>
      log.warn({ reason: (error as Error).message }, 'the key epoch of nonces could not be renewed'),
    )
    teardown.add(() => epochs.stop())
  }
  return { db, presence, eventWriter }
}

/**
 * `nonce.store: memory` keeps used nonces in this process. A second instance would refuse most
 * nonces of the first, so it does not start.
 */
async function requireNonceOwnership(presence: InstancePresence): Promise<void> {
  const deadline = Date.now() + PREDECESSOR_GRACE_MS
  while ((await presence.liveInstances()).length > 1) {
    if (Date.now() > deadline)
      throw new Error(
        'another instance is running on this database, and nonce.store is memory: nonces of one instance mean nothing to the other; stop it first',
      )
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** Called at the start and at SIGHUP. */
export async function applyBlockedKeys({ security }: Config, db: Database, log: Logger): Promise<void> {
  if (security.blocked_keys_file === null) return
  const listed = await loadBlockedKeys(security.blocked_keys_file, db)
  log.info({ event: 'blocked_keys', ...listed }, 'blocked keys read')
}
