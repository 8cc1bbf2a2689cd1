/** The database that is loaded: one at a URL, or the embedded one of a data folder, which is started and stopped again. */

import { mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import { startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { type Database, type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { migrate } from '../../src/store/migrate.ts'

export interface Target {
  db: Database
  /** DER of the certificate that the service issues under; undefined when only the database knows. */
  issuer: Buffer | undefined
  close(): Promise<void>
}

/** Filling a table is no request: a batch may take minutes on a slow disk, and VACUUM longer. */
const STATEMENT_TIMEOUT_MS = 6 * 3_600_000

/**
 * Memory for the indexes that are written all over, a checkpoint now and then instead of every gigabyte, and no vacuum that reads
 * again what is being written; one comes at the end. What is durable stays so.
 */
const LOADING = {
  shared_buffers: '2GB',
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
  maintenance_work_mem: '512MB',
  autovacuum: 'off',
}

/** @throws Error in a plain sentence when the URL is none of PostgreSQL */
export async function openUrl(text: string, connections: number): Promise<Target> {
  const settings = databaseOf(text, connections)
  await migrate(settings)
  const db = openDatabase(settings, () => undefined)
  return { db, issuer: undefined, close: () => db.close() }
}

/** As `chancery serve --dev --data-dir` lays it out; made when it is not there. */
export async function openDataDir(dataDir: string, connections: number, log: (line: string) => void): Promise<Target> {
  mkdirSync(dataDir, { recursive: true, mode: 0o755 })
  const { files } = await ensureDevCa(path.join(dataDir, 'ca'), new Date())
  const postgres = await startEmbeddedPostgres({ dataDir: path.join(dataDir, 'postgres'), settings: LOADING, log })
  try {
    const settings = { ...BASICS, ...postgres.connection, maxConnections: connections }
    await migrate(settings)
    const db = openDatabase(settings, () => undefined)
    const [issuer] = decodePem(readFileSync(files.intermediate, 'utf8'))
    return {
      db,
      issuer: issuer?.der,
      async close() {
        await db.close()
        await postgres.stop()
      },
    }
  } catch (error) {
    await postgres.stop()
    throw error
  }
}

const BASICS = {
  password: '',
  sslmode: 'disable' as const,
  connectionTimeoutMs: 10_000,
  idleTimeoutMs: 60_000,
  statementTimeoutMs: STATEMENT_TIMEOUT_MS,
}

/** `postgres://user:password@host:port/database?sslmode=…`; `host` as a parameter may be the folder of a socket. */
export function databaseOf(text: string, maxConnections: number): DatabaseSettings {
  if (!URL.canParse(text) || !/^postgres(ql)?:$/.test(new URL(text).protocol))
    throw new Error(`${text} is no URL of a PostgreSQL database such as postgres://user@host/database`)
  const url = new URL(text)
  const sslmode = url.searchParams.get('sslmode') ?? 'prefer'
  return {
    ...BASICS,
    host: url.searchParams.get('host') ?? (url.hostname || 'localhost'),
    port: Number(url.port || url.searchParams.get('port') || 5432),
    database: decodeURIComponent(url.pathname.slice(1)),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    sslmode: sslmode as DatabaseSettings['sslmode'],
    maxConnections,
  }
}
