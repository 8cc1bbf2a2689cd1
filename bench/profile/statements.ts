/** What PostgreSQL says about the statements of a run (the extension pg_stat_statements), its log and its transactions. */

import { openDatabase } from '../../src/store/database.ts'
import { embeddedDatabase } from '../servers/embedded-database.ts'

export interface StatementFigures {
  text: string
  calls: number
  rows: number
  /** Time inside PostgreSQL's executor; waits for locks and reads are in it, parsing, planning and the commit are not. */
  execMs: number
  walBytes: number
}

export interface DatabaseFigures {
  statements: StatementFigures[]
  commits: number
  walRecords: number
  walBytes: number
}

export interface DatabaseWatch {
  /** What is counted begins now. */
  reset(): Promise<void>
  read(): Promise<DatabaseFigures>
  close(): Promise<void>
}

/** The embedded server's superuser, whom it knows by the operating system's user. */
const SUPERUSER = 'postgres'

/**
 * Has the embedded PostgreSQL of a data folder load the extension with its next start, and creates it.
 * @param dataDir of a service that runs in development mode
 */
export async function enableStatementStatistics(dataDir: string): Promise<void> {
  const database = connect(dataDir, SUPERUSER)
  try {
    await database.query({ name: 'load', text: `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'` }, [])
    await database.query({ name: 'create', text: 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements' }, [])
  } finally {
    await database.close()
  }
}

export function watchDatabase(dataDir: string): DatabaseWatch {
  const database = connect(dataDir, SUPERUSER)
  let before: Totals | undefined
  const totals = async (): Promise<Totals> => {
    const [row] = await database.query<Totals>(
      {
        name: 'totals',
        text: `SELECT xact_commit::float8 AS commits, wal_records::float8 AS "walRecords", wal_bytes::float8 AS "walBytes"
          FROM pg_stat_database, pg_stat_wal WHERE datname = current_database()`,
      },
      [],
    )
    return row as Totals
  }
  return {
    async reset() {
      await database.query({ name: 'reset', text: 'SELECT pg_stat_statements_reset()' }, [])
      before = await totals()
    },
    async read() {
      const statements = await database.query<StatementFigures>(
        {
          name: 'read',
          text: `SELECT query AS text, calls::float8, rows::float8, total_exec_time AS "execMs", wal_bytes::float8 AS "walBytes"
            FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
            WHERE rolname <> $1 ORDER BY total_exec_time DESC`,
        },
        [SUPERUSER],
      )
      const after = await totals()
      const since = (name: keyof Totals) => after[name] - (before?.[name] ?? 0)
      return { statements, commits: since('commits'), walRecords: since('walRecords'), walBytes: since('walBytes') }
    },
    close: () => database.close(),
  }
}

interface Totals {
  commits: number
  walRecords: number
  walBytes: number
}

function connect(dataDir: string, user: string) {
  return openDatabase({ ...embeddedDatabase(dataDir), user }, (error) => {
    throw error
  })
}
