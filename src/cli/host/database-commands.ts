/** `chancery db …`: the schema, its migrations, and optional indexes. The service may run meanwhile. */

import { isAnyProfileStored } from '../../admin/profiles/profile-store.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { openDatabase } from '../../store/database.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import {
  dropIndexes,
  HISTORY_INDEXES,
  type IndexDefinitions,
  makeIndexes,
  readIndexes,
  SEARCH_INDEXES,
} from '../../store/optional-indexes.ts'
import { migrate } from '../../store/schema/migrate.ts'
import { fourDigits } from '../../store/schema/migration-files.ts'
import { type PlannedMigration, type PlannedStep, planMigrations } from '../../store/schema/migration-plan.ts'
import { type RollbackPoint, readRollbackPoint, readSchemaState } from '../../store/schema/schema-state.ts'
import { durabilityWarnings, placesOf, requireOwnSessions } from '../../store/session.ts'
import { type DatabasePool, queriesOf } from '../../store/slonik.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import { showProgress, tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'

/** @throws SharedSessions and connection errors */
async function settingsOf(file: string | undefined) {
  const settings = databaseSettings(await readConfigFile(file))
  await requireOwnSessions(settings)
  return settings
}

/** @returns 0 when this release can serve on the schema, else 1 */
export async function databaseStatus({ config: file, json }: Printing): Promise<number> {
  const settings = await settingsOf(file)
  const { applied, pending, unknown, isUsable } = await readSchemaState(settings)
  const current = pending.length === 0 && unknown.length === 0
  const db = openDatabase({ ...settings, maxConnections: 1 }, () => undefined)
  const warnings = await durabilityWarnings(db).finally(() => db.close())
  const { database, hosts, port } = settings
  const [done, missing] = [applied.map(({ name }) => name), pending.map(({ name }) => name)]
  tell(
    json,
    { current, usable: isUsable, database, host: hosts.join(','), port, applied: done, missing, unknown, warnings },
    `database ${database} at ${placesOf(settings)}`,
    ...done.map((name) => `  applied  ${name}`),
    ...missing.map((name) => `  missing  ${name}`),
    ...unknown.map((version) => `  unknown  ${fourDigits(version)}, from a newer release`),
    ...warnings.map((warning) => `warning: ${warning}`),
    current
      ? 'the schema is current'
      : isUsable
        ? 'the schema is that of a newer release, and this one can serve on it'
        : `this release cannot serve on this schema: ${missing.length > 0 ? 'run "chancery -c CONFIG db migrate"' : 'run the newer release'}`,
  )
  return isUsable ? 0 : 1
}

type MigrateOptions = Printing & { plan: boolean; wait: number }

export async function databaseMigrate({ config: file, plan, wait, json }: MigrateOptions): Promise<number> {
  const settings = await settingsOf(file)
  if (plan) {
    const migrations = await planMigrations(settings)
    tell(json, { migrations }, ...renderPlan(migrations))
    return 0
  }
  const done = await migrate(settings, { maxWaitMs: wait * 60_000, report: showProgress() })
  const applied = done.map(({ name }) => name)
  const sentence =
    applied.length === 0 ? 'nothing to do: the schema is current' : `${applied.length} migration(s) applied`
  tell(json, { applied }, sentence)
  return 0
}

export async function rollbackPoint({ config: file, json }: Printing): Promise<number> {
  const settings = await settingsOf(file)
  const point = await readRollbackPoint(settings)
  tell(json, point, ...renderRollbackPoint(point))
  return 0
}

/** A running instance has the former identity in memory, so none may be there. */
export async function newIdentity({ config: file, json }: Printing): Promise<number> {
  const config = await readConfigFile(file)
  return withAdministration(
    config,
    async ({ db, audit, actor }) => {
      const queries = queriesOf(db)
      const instances = await queries.query(
        { name: 'live-instances', text: 'SELECT FROM live_instances() LIMIT 1' },
        [],
      )
      if (instances.length > 0) throw new CommandError('an instance runs on this database: stop all of them first')
      const id = await createDecisionStore(queries).renewIdentity()
      await audit.record(actor, 'database.reconcile', { new_identity: id })
      tell(json, { database: id }, `the database is ${id} from now on`)
      return 0
    },
    'current',
    'any',
  )
}

type IndexOptions = Printing & { drop: boolean; history: boolean }

export async function searchIndexes({ config: file, drop, history, json }: IndexOptions): Promise<number> {
  const config = await readConfigFile(file)
  const wanted = { ...SEARCH_INDEXES, ...(history && HISTORY_INDEXES) }
  return withAdministration(config, ({ db }) => (drop ? dropSearchIndexes(db, json) : makeAll(db, wanted, json)))
}

async function dropSearchIndexes(db: DatabasePool, json: boolean): Promise<number> {
  // CSR profiles may depend on these indexes.
  const kept = (await isAnyProfileStored(db)) ? Object.keys(HISTORY_INDEXES) : []
  const names = Object.keys(SEARCH_INDEXES).filter((name) => !kept.includes(name))
  await dropIndexes(db, names)
  tell(json, { dropped: names }, `dropped: ${names.join(', ')}`)
  return 0
}

async function makeAll(db: DatabasePool, wanted: IndexDefinitions, json: boolean): Promise<number> {
  await makeIndexes(db, wanted)
  const indexes = await readIndexes(db, wanted)
  tell(
    json,
    { indexes },
    ...indexes.map(({ name, bytes }) => `${name.padEnd(20)}  ${Math.ceil(bytes / 1024 / 1024)} MiB`),
  )
  return 0
}

export function renderPlan(migrations: readonly PlannedMigration[]): string[] {
  if (migrations.length === 0) return ['nothing to do: the schema is current']
  return [...migrations.flatMap(renderMigration), 'nothing was changed']
}

function renderMigration({ name, isConcurrent, contract, steps }: PlannedMigration): string[] {
  const locking = steps.filter(({ lock }) => lock !== undefined)
  return [
    `${name}, ${isConcurrent ? 'each statement alone' : 'one transaction'}`,
    ...(contract === undefined ? [] : [`  after it, releases before ${fourDigits(contract)} cannot serve`]),
    ...(locking.length === 0 ? ['  locks no table that is there'] : locking.flatMap(renderStep)),
  ]
}

const WIDTH = 110

function renderStep({ statement, table, lock, keepsWaiting, lasts, rows, bytes, seconds }: PlannedStep): string[] {
  const size =
    bytes === undefined ? 'new' : [rows === undefined ? 'not counted' : plural(rows), bytesOf(bytes)].join(', ')
  const time = lasts === 'moment' ? 'for a moment' : `read whole, about ${duration(seconds ?? 0)}`
  const who =
    keepsWaiting === 'nobody' ? 'nobody waits' : `${keepsWaiting} wait${keepsWaiting === 'everybody' ? 's' : ''}`
  const line = statement.replaceAll(/\s+/g, ' ')
  return [
    `  ${table} (${size}): ${time}, ${who} (${lock})`,
    `    ${line.length > WIDTH ? `${line.slice(0, WIDTH)}…` : line}`,
  ]
}

const plural = (rows: number) => `${rows.toLocaleString('en')} row${rows === 1 ? '' : 's'}`

function bytesOf(bytes: number): string {
  const unit =
    bytes < 2 ** 20
      ? (['KiB', 2 ** 10] as const)
      : bytes < 2 ** 30
        ? (['MiB', 2 ** 20] as const)
        : (['GiB', 2 ** 30] as const)
  const amount = bytes / unit[1]
  return `${amount < 10 ? amount.toFixed(1) : amount.toFixed(0)} ${unit[0]}`
}

const duration = (seconds: number) => (seconds < 120 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`)

export function renderRollbackPoint({ schema, oldestRelease, without, excluded, next }: RollbackPoint): string[] {
  const releases =
    oldestRelease === undefined
      ? 'a newer release has migrated it, and does not say which others can serve on it'
      : `releases from ${fourDigits(oldestRelease)} on that have this command can serve on it: install one and restart, the database stays as it is`
  return [
    `the database has schema ${fourDigits(schema)}`,
    releases,
    ...without.map(({ name, goingBack }) => `  without ${name}: ${goingBack ?? 'nothing is missed'}`),
    next
      ? `until ${next.name}, which is pending: after it, only those from ${fourDigits(next.contract)} on`
      : 'no pending migration changes that',
    ...(excluded ? [renderExcluded(excluded)] : []),
  ]
}

function renderExcluded({
  name,
  appliedAt,
  certificates,
  revocations,
}: NonNullable<RollbackPoint['excluded']>): string {
  const since = `${certificates.toLocaleString('en')} certificates and ${revocations.toLocaleString('en')} revocations since`
  return `${name} excluded older ones at ${appliedAt.toISOString()}: they need a backup from before, without the ${since}`
}
