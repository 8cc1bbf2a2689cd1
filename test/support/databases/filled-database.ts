/** A database with many certificates and the search indexes, for scripts that measure lists. */

import pg from 'pg'
import { makeIndexes, SEARCH_INDEXES } from '../../../src/store/optional-indexes.ts'
import { openCheckedDatabase } from '../../../src/store/slonik.ts'
import { settingsFor } from '../../store/support.ts'
import { type TestDatabase, testDatabase } from '../database.ts'
import { type DatabaseConnection, givenPostgres } from '../postgres.ts'
import { fillWithCertificates } from './many-certificates.ts'

/** @param keptName of a database on the server of CHANCERY_TEST_POSTGRES, which stays and is filled only when it is empty */
export async function filledDatabase(certificates: number, keptName?: string): Promise<TestDatabase> {
  const server = givenPostgres()
  const database =
    keptName === undefined || !server
      ? await testDatabase()
      : { connection: { ...server, database: keptName }, drop: async () => undefined }
  if (await isEmpty(database.connection))
    await fillWithCertificates(database.connection, certificates, (sentence) => console.log(sentence))
  await makeSearchIndexes(database)
  return database
}

async function isEmpty(connection: DatabaseConnection): Promise<boolean> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    return (await client.query('SELECT FROM certificates LIMIT 1')).rowCount === 0
  } finally {
    await client.end()
  }
}

async function makeSearchIndexes(database: TestDatabase): Promise<void> {
  const db = await openCheckedDatabase({ ...settingsFor(database.connection, 1), statementTimeoutMs: 3_600_000 })
  const startedAt = performance.now()
  await makeIndexes(db, SEARCH_INDEXES)
  console.log(`db search-indexes: ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
  await db.end()
}
