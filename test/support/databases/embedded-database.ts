/** Looks into the database of an embedded service, as its operator could: the connection is in the file it writes. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import { parse } from 'yaml'
import type { DatabaseConnection } from '../postgres.ts'
import type { EmbeddedService } from './embedded.ts'

export async function embeddedQuery(
  { dataDir }: EmbeddedService,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Record<string, unknown>[]> {
  const { database } = parse(readFileSync(path.join(dataDir, 'chancery.yaml'), 'utf8')) as {
    database: DatabaseConnection
  }
  const { host, port, user, database: name } = database
  const client = new pg.Client({ host, port, user, database: name })
  await client.connect()
  try {
    return (await client.query(sql, [...values])).rows
  } finally {
    await client.end()
  }
}
