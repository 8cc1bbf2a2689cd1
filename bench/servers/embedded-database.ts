/** Where a service in development mode keeps its database, as the configuration says that it has left in its data folder. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { readDocument } from '../../src/shared/config-file/document.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'

/** One connection, for a bench that looks beside the load. */
const LIMITS = { maxConnections: 1, connectionTimeoutMs: 5000, idleTimeoutMs: 60_000, statementTimeoutMs: 30_000 }

/** Only its section is looked at: another commit's configuration may have keys that this one does not know. */
export function embeddedDatabase(dataDir: string): DatabaseSettings {
  const document = readDocument(readFileSync(path.join(dataDir, 'chancery.yaml'), 'utf8'), 'yaml').value
  const { database } = document as { database: Pick<DatabaseSettings, 'host' | 'port' | 'database' | 'user'> }
  const { host, port, database: name, user } = database
  return { host, port, database: name, user, password: '', sslmode: 'disable', ...LIMITS }
}
