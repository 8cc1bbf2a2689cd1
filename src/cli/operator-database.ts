/** The database for operators' commands: one connection, a long time limit, always closed. */

import { userInfo } from 'node:os'
import { AuditLog } from '../admin/audit/audit-log.ts'
import type { Config } from '../config/schema.ts'
import type { Actor } from '../domain/administrator.ts'
import { auditKeyOf } from '../settings/admin-settings.ts'
import { databaseSettings } from '../settings/server-settings.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { requireUsableSchema } from '../store/schema/schema-state.ts'
import { type DatabasePool, openCheckedDatabase } from '../store/slonik.ts'
import { commandDecisions } from './command-decisions.ts'

/** An index over a large table takes minutes, and so does a change of millions of rows. */
const STATEMENT_TIMEOUT_MS = 3_600_000

const settingsOf = (config: Config) => ({ ...databaseSettings(config, 1), statementTimeoutMs: STATEMENT_TIMEOUT_MS })

/** @throws SchemaMismatch and connection errors */
export async function withDatabase<T>(config: Config, work: (db: Database) => Promise<T>): Promise<T> {
  const settings = settingsOf(config)
  await requireUsableSchema(settings)
  const db = openDatabase(settings, () => undefined)
  try {
    return await work(db)
  } finally {
    await db.close()
  }
}

/** The use cases of the Admin API; their entries in the audit log name the OS user. */
export interface Administration {
  db: DatabasePool
  audit: AuditLog
  actor: Actor
}

/**
 * @param schema `any` for what must work between two releases, also where the database cannot say whether it was compared
 * @param ofDatabase `any` for what compares it (src/store/incarnation.ts)
 * @throws SchemaMismatch and connection errors
 */
export async function withAdministration<T>(
  config: Config,
  work: (administration: Administration) => Promise<T>,
  schema: 'current' | 'any' = 'current',
  ofDatabase: 'compared' | 'any' = 'compared',
): Promise<T> {
  const settings = { ...settingsOf(config), requireCompared: () => ofDatabase === 'compared' && schema === 'current' }
  if (schema === 'current') await requireUsableSchema(settings)
  const db = await openCheckedDatabase(settings)
  try {
    return await work({
      db,
      audit: new AuditLog(db, auditKeyOf(config), undefined, commandDecisions(config, db)),
      actor: commandLine(),
    })
  } finally {
    await db.end()
  }
}

function commandLine(): Actor {
  const operator = osUser()
  return { userId: undefined, username: operator, role: 'admin', ipAddress: undefined, operator }
}

function osUser(): string {
  try {
    return userInfo().username
  } catch {
    // A user id without a name, as in a container.
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}
