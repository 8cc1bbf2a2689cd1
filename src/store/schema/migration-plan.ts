/**
 * Says what `db migrate` would do here: which tables it would lock, how large they are, and about how long it would take.
 *
 * It knows the kinds of statements that migrations have. What it does not know, and what would keep clients waiting, is a fault
 * of the file, which a test refuses.
 */

import type pg from '../pg.ts'
import type { DatabaseSettings } from '../session.ts'
import { MIGRATIONS_DIR, type MigrationFile, partsOf, readMigration, statementsIn } from './migration-files.ts'
import { schemaStateOf, withSchemaSession } from './schema-state.ts'

export interface PlannedStep {
  statement: string
  /** Undefined where no table is locked that is there already. */
  table: string | undefined
  lock: LockMode | undefined
  /** Who waits for the lock, once it is granted. */
  keepsWaiting: 'nobody' | 'writers' | 'everybody'
  /** For how long; `moment` is milliseconds. */
  lasts: Effect['lasts']
  /** The last ANALYZE has counted them; undefined before it. */
  rows: number | undefined
  /** The size of the table with its large values, without indexes. */
  bytes: number | undefined
  seconds: number | undefined
}

export interface PlannedMigration {
  name: string
  isConcurrent: boolean
  /** The schema of the oldest release that can serve after it, where it excludes some. */
  contract: number | undefined
  steps: PlannedStep[]
}

/** Changes nothing. @throws UnreleasedSchema */
export async function planMigrations(settings: DatabaseSettings, folder = MIGRATIONS_DIR): Promise<PlannedMigration[]> {
  return withSchemaSession(settings, async (client) => {
    const { pending } = await schemaStateOf(client, folder)
    const planned: PlannedMigration[] = []
    for (const migration of pending) {
      const file = await readMigration(folder, migration)
      const steps: PlannedStep[] = []
      for (const effect of effectsOf(file)) steps.push(await plannedStep(client, effect))
      planned.push({ name: file.name, isConcurrent: file.isConcurrent, contract: file.contract, steps })
    }
    return planned
  })
}

const KEEPS_WAITING: Readonly<Record<LockMode, PlannedStep['keepsWaiting']>> = {
  'ACCESS EXCLUSIVE': 'everybody',
  'SHARE ROW EXCLUSIVE': 'writers',
  SHARE: 'writers',
  'SHARE UPDATE EXCLUSIVE': 'nobody',
  'ROW EXCLUSIVE': 'nobody',
}

async function plannedStep(client: pg.Client, { statement, table, lock, lasts }: Effect): Promise<PlannedStep> {
  const size = table === undefined ? undefined : await sizeOf(client, table)
  return {
    statement,
    table: size?.table ?? table,
    lock,
    keepsWaiting: lock ? KEEPS_WAITING[lock] : 'nobody',
    lasts,
    rows: size && size.rows >= 0 ? size.rows : undefined,
    bytes: size?.bytes,
    seconds: size && lasts !== 'moment' ? estimatedSeconds(size, lasts) : undefined,
  }
}

interface Size {
  table: string
  /** Below 0 where nobody has counted. */
  rows: number
  bytes: number
}

/** An index stands for its table. Undefined for a table that an earlier step makes. */
async function sizeOf(client: pg.Client, name: string): Promise<Size | undefined> {
  const text = `
    SELECT c.relname AS table, c.reltuples::float8 AS rows, pg_table_size(c.oid)::float8 AS bytes
      FROM pg_class c
     WHERE c.oid = coalesce((SELECT indrelid FROM pg_index WHERE indexrelid = to_regclass($1)), to_regclass($1))`
  return (await client.query<Size>(text, [name])).rows[0]
}

/** Half of what was measured with a million certificates (test/load/online-migration.ts), on a machine that also serves. */
const BYTES_PER_SECOND = 300e6
const INDEXED_ROWS_PER_SECOND = 400_000

/** CREATE INDEX CONCURRENTLY reads a table twice. A table without statistics counts by its bytes alone. */
function estimatedSeconds({ rows, bytes }: Size, lasts: 'build' | 'scan'): number {
  const reading = bytes / BYTES_PER_SECOND
  return Math.ceil(lasts === 'scan' ? reading : 2 * reading + Math.max(rows, 0) / INDEXED_ROWS_PER_SECOND)
}

/** A lock that a statement takes on a table that is there before the migration. */
interface Effect {
  /** The statement, without comments. */
  statement: string
  /** The table that is locked, or the index whose table it is; undefined when none is. */
  table?: string
  lock?: LockMode
  /** `build` and `scan` take as long as the table is large. */
  lasts: 'moment' | 'build' | 'scan'
  faults: string[]
}

/** Tables that grow with the certificates. */
const LARGE =
  /\b(?:certificates|orders|authorizations|accounts|certificate_names|event_deliveries|admin_audit_log|notifications)\b/i

interface Kind extends Omit<Action, 'lasts' | 'lock'> {
  /** The first group is the table. */
  pattern: RegExp
  lock?: LockMode
  lasts?: 'build'
}

const KINDS: readonly Kind[] = [
  { pattern: /^CREATE (?:UNLOGGED )?TABLE / },
  { pattern: /^CREATE (?:UNIQUE )?INDEX CONCURRENTLY .*?\bON (\w+)/, lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'build' },
  {
    pattern: /^CREATE (?:UNIQUE )?INDEX .*?\bON (\w+)/,
    lock: 'SHARE',
    lasts: 'build',
    fault: 'keeps writers waiting for the whole build; build it concurrently',
  },
  { pattern: /^DROP INDEX CONCURRENTLY (?:IF EXISTS )?(\w+)/, lock: 'SHARE UPDATE EXCLUSIVE' },
  {
    pattern: /^DROP INDEX (?:IF EXISTS )?(\w+)/,
    lock: 'ACCESS EXCLUSIVE',
    fault: 'locks the table of the index; drop it concurrently',
  },
  { pattern: /^ALTER INDEX (\w+) ALTER COLUMN \d+ SET STATISTICS /, lock: 'SHARE UPDATE EXCLUSIVE' },
  { pattern: /^CREATE (?:OR REPLACE )?(?:CONSTRAINT )?TRIGGER .*? ON (\w+)/, lock: 'SHARE ROW EXCLUSIVE' },
  { pattern: /^DROP TRIGGER .*? ON (\w+)/, lock: 'ACCESS EXCLUSIVE', isContract: true },
  { pattern: /^DROP TABLE (?:IF EXISTS )?(\w+)/, lock: 'ACCESS EXCLUSIVE', isContract: true },
  { pattern: /^DROP (?:FUNCTION|SEQUENCE) /, isContract: true },
  { pattern: /^CREATE (?:OR REPLACE )?FUNCTION |^CREATE SEQUENCE / },
  { pattern: /^COMMENT ON TABLE (\w+)/, lock: 'SHARE UPDATE EXCLUSIVE' },
  { pattern: /^LOCK TABLE (?:ONLY )?(\w+) IN SHARE ROW EXCLUSIVE MODE$/, lock: 'SHARE ROW EXCLUSIVE' },
  { pattern: /^(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)/, lock: 'ROW EXCLUSIVE' },
]

export function effectsOf(file: MigrationFile): Effect[] {
  const statements = statementsIn(file.sql)
  const made = new Set(statements.map((text) => /^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)/.exec(text)?.[1]))
  return statements
    .flatMap((statement) =>
      statement.startsWith('ALTER TABLE ') ? alteringEffects(statement) : effectsOfKind(statement),
    )
    .filter(({ table }) => table === undefined || !made.has(table))
    .map((effect) => ({ ...effect, faults: [...effect.faults, ...faultsIn(file, effect)] }))
}

/** All faults of a migration, for its author; none for one that may be released. */
export function faultsOf(file: MigrationFile): string[] {
  const { contract, version, name } = file
  const header =
    contract !== undefined && !(contract < version)
      ? [`${name}: "-- contract: ${contract}" has to name an older migration`]
      : []
  return [
    ...header,
    ...effectsOf(file).flatMap(({ statement, faults }) => faults.map((fault) => `${name}: ${statement}: ${fault}`)),
  ]
}

interface Found extends Effect {
  isContract?: true
}

function effectsOfKind(statement: string): Found[] {
  const kind = KINDS.find(({ pattern }) => pattern.test(statement))
  if (!kind) return [{ statement, lasts: 'moment', faults: ['is not known to db migrate --plan (migration-plan.ts)'] }]
  const { pattern, fault, isContract, lock, lasts = 'moment' } = kind
  const table = pattern.exec(statement)?.[1]
  const faults = [fault, rowsFault(statement)].filter((one) => one !== undefined)
  const own: Found = {
    statement,
    lasts,
    faults,
    ...(table && { table }),
    ...(lock && { lock }),
    ...(isContract && { isContract }),
  }
  return [own, ...referencedBy(statement)]
}

/** A foreign key locks the other table, too. */
function referencedBy(statement: string): Found[] {
  if (!/^(?:CREATE (?:UNLOGGED )?|ALTER )TABLE /.test(statement)) return []
  const tables = new Set([...statement.matchAll(/\bREFERENCES (\w+)/g)].map(([, table]) => table as string))
  return [...tables].map((table) => ({ statement, table, lock: 'SHARE ROW EXCLUSIVE', lasts: 'moment', faults: [] }))
}

function rowsFault(statement: string): string | undefined {
  const writes = /^(?:UPDATE|DELETE FROM) \w+|^INSERT INTO \w+.*?\bSELECT\b.*/is.exec(statement)?.[0]
  return writes !== undefined && LARGE.test(writes) ? 'touches as many rows as a large table has' : undefined
}

function alteringEffects(statement: string): Found[] {
  const [, table = '', actions = ''] = /^ALTER TABLE (?:ONLY )?(?:IF EXISTS )?(\w+) (.*)$/s.exec(statement) ?? []
  const own = partsOf(actions).map((text): Found => {
    const effect = { statement: `ALTER TABLE ${table} ${text}`, table }
    const found = alterAction(text)
    if (!found) return { ...effect, lasts: 'moment', faults: ['is not known to db migrate --plan (migration-plan.ts)'] }
    const { fault, ...action } = found
    return { ...effect, ...action, faults: fault === undefined ? [] : [fault] }
  })
  return [...own, ...referencedBy(statement)]
}

function faultsIn({ isConcurrent, contract }: MigrationFile, { lasts, isContract }: Found): string[] {
  return [
    ...(lasts !== 'moment' && !isConcurrent
      ? ['takes as long as the table is large; put it into a concurrent file']
      : []),
    ...(isContract && contract === undefined
      ? ['takes away what the release before may use; see "Expand, then contract"']
      : []),
  ]
}

/** PostgreSQL's names, of those that occur here. */
type LockMode = 'ACCESS EXCLUSIVE' | 'SHARE ROW EXCLUSIVE' | 'SHARE' | 'SHARE UPDATE EXCLUSIVE' | 'ROW EXCLUSIVE'

interface Action {
  lock: LockMode
  /** `scan`: the whole table is read, and the lock keeps nobody from writing. */
  lasts: 'moment' | 'scan'
  /** Why a migration may not do this, for its author. */
  fault?: string
  /** The release before may need what is gone. */
  isContract?: true
}

const NAME = '"?\\w+"?'
const action = (pattern: string) => new RegExp(`^${pattern}`, 'i')

const ACTIONS: readonly (readonly [RegExp, Action])[] = [
  [action('ADD CONSTRAINT .* NOT VALID$'), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [action(`ADD CONSTRAINT ${NAME} UNIQUE USING INDEX `), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [
    action('ADD (?:CONSTRAINT|CHECK|FOREIGN|UNIQUE|PRIMARY|EXCLUDE) '),
    long('checks all rows; add it NOT VALID, or by an index'),
  ],
  [action('ADD '), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [action('VALIDATE CONSTRAINT '), { lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'scan' }],
  [action('DROP CONSTRAINT '), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' }],
  [action('DROP '), { lock: 'ACCESS EXCLUSIVE', lasts: 'moment', isContract: true }],
  [action(`ALTER (?:COLUMN )?${NAME} SET STATISTICS `), { lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'moment' }],
  [
    action(`ALTER (?:COLUMN )?${NAME} (?:SET DEFAULT|DROP DEFAULT|DROP NOT NULL|SET STORAGE)`),
    { lock: 'ACCESS EXCLUSIVE', lasts: 'moment' },
  ],
  [action(`ALTER (?:COLUMN )?${NAME} SET NOT NULL`), long('reads all rows; validate a CHECK in its place')],
  [action(`ALTER (?:COLUMN )?${NAME} (?:SET DATA )?TYPE `), long('writes all rows again; add a column in its place')],
  [action('SET \\(|RESET \\('), { lock: 'SHARE UPDATE EXCLUSIVE', lasts: 'moment' }],
  [action('(?:ENABLE|DISABLE) TRIGGER '), { lock: 'SHARE ROW EXCLUSIVE', lasts: 'moment' }],
  [action('RENAME '), long('takes a name away that the release before uses; add a column in its place')],
]

function long(fault: string): Action {
  return { lock: 'ACCESS EXCLUSIVE', lasts: 'moment', fault }
}

/** @param text without comments, as after `ALTER TABLE name`; undefined for an action that is not known */
function alterAction(text: string): Action | undefined {
  const found = ACTIONS.find(([pattern]) => pattern.test(text))?.[1]
  if (!found) return undefined
  const fault = found.fault ?? (isColumn(text) ? columnFault(text) : undefined)
  // A foreign key locks both tables against writers alone.
  const lock = /^ADD CONSTRAINT \S+ FOREIGN KEY /i.test(text) ? 'SHARE ROW EXCLUSIVE' : found.lock
  return { ...found, lock, ...(fault !== undefined && { fault }) }
}

const isColumn = (text: string) => /^ADD (?!CONSTRAINT |CHECK |FOREIGN |UNIQUE |PRIMARY |EXCLUDE )/i.test(text)

/** A constant, or a time that is computed once for all rows. */
const CONSTANT =
  /\bDEFAULT (?:-?[\d.]+|'[^']*'(?:::[\w[\]]+)?|true|false|null|now\(\)|current_timestamp)(?= NOT NULL$|$)/i

function columnFault(text: string): string | undefined {
  if (/\b(?:UNIQUE|PRIMARY KEY)\b/i.test(text)) return 'builds an index under the lock; build it concurrently'
  if (/\b(?:REFERENCES|CHECK)\b/i.test(text)) return 'checks all rows; add the constraint NOT VALID'
  if (/\bGENERATED\b|\b(?:small|big)?serial\b/i.test(text)) return 'writes all rows again'
  const hasDefault = /\bDEFAULT\b/i.test(text)
  if (hasDefault && !CONSTANT.test(text)) return 'may write all rows again: its default is not a constant'
  if (/\bNOT NULL\b/i.test(text) && !hasDefault)
    return 'is NOT NULL without a default, which the release before does not write'
  return undefined
}
