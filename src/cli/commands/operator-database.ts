/** The database for operators' commands: one connection, a long time limit, always closed. */

import type { Config } from '../../config/schema.ts'
import { databaseSettings } from '../../settings/server.ts'
import { type Database, openDatabase } from '../../store/database.ts'
import { requireCurrentSchema } from '../../store/migrate.ts'

/** An index over a large table takes minutes. */
const STATEMENT_TIMEOUT_MS = 3_600_000

/** @throws SchemaMismatch and connection errors */
export async function withDatabase<T>(config: Config, work: (db: Database) => Promise<T>): Promise<T> {
  const settings = { ...databaseSettings(config, 1), statementTimeoutMs: STATEMENT_TIMEOUT_MS }
  await requireCurrentSchema(settings)
  const db = openDatabase(settings, () => undefined)
  try {
    return await work(db)
  } finally {
    await db.close()
  }
}
