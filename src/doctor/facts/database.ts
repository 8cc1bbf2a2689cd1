/** The database, for reading only. */

import type { Config } from '../../config/schema.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { type Diagnosis, openDiagnosis } from '../diagnosis-store.ts'
import { CannotTell, messageOf } from '../verdict.ts'

const CONNECT_MS = 5_000
const STATEMENT_MS = 15_000

/** A report that comes later is of no use to its reader. */
export function settingsFor(config: Config) {
  const settings = databaseSettings(config, 1)
  const connectionTimeoutMs = Math.min(settings.connectionTimeoutMs || CONNECT_MS, CONNECT_MS)
  return { ...settings, connectionTimeoutMs, statementTimeoutMs: STATEMENT_MS }
}

/** @throws CannotTell */
export async function openDatabaseFor(config: Config): Promise<Diagnosis> {
  try {
    return await openDiagnosis(settingsFor(config))
  } catch (error) {
    throw new CannotTell(`the database is not reachable: ${messageOf(error)}`)
  }
}
