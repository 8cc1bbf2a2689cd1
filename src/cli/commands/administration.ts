/**
 * What commands have in common with the Admin API: its use cases, on one connection, with entries
 * in the audit log that name the OS user.
 */

import { userInfo } from 'node:os'
import { AuditLog } from '../../admin/audit/audit-log.ts'
import type { Config } from '../../config/schema.ts'
import type { Actor } from '../../domain/administrator.ts'
import { auditKeyOf } from '../../settings/admin.ts'
import { databaseSettings } from '../../settings/server.ts'
import { requireCurrentSchema } from '../../store/migrate.ts'
import { type DatabasePool, openCheckedDatabase } from '../../store/slonik.ts'

export interface Administration {
  db: DatabasePool
  audit: AuditLog
  actor: Actor
}

/** A change of millions of rows takes minutes. */
const STATEMENT_TIMEOUT_MS = 3_600_000

/**
 * @param schema `any` for what must work between two releases
 * @throws SchemaMismatch and connection errors
 */
export async function withAdministration<T>(
  config: Config,
  work: (administration: Administration) => Promise<T>,
  schema: 'current' | 'any' = 'current',
): Promise<T> {
  const settings = { ...databaseSettings(config, 1), statementTimeoutMs: STATEMENT_TIMEOUT_MS }
  if (schema === 'current') await requireCurrentSchema(settings)
  const db = await openCheckedDatabase(settings)
  try {
    return await work({ db, audit: new AuditLog(db, auditKeyOf(config)), actor: commandLine() })
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
