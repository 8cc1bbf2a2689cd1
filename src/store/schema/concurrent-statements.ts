/**
 * The statements of a `-- concurrently` file, each alone. An interruption leaves those before it done, and perhaps an index
 * that is not valid; a repeat goes on from there.
 */

import type { MigrationFile } from './migration-files.ts'
import { statementsIn } from './sql-statements.ts'
import { describeHolders, type MigrationSession, watched } from './waiting.ts'

const INDEX_BUILD = /^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?:IF NOT EXISTS )?(\w+) ON /i
const REPEATABLE = /^(?:DROP INDEX CONCURRENTLY IF EXISTS|ALTER TABLE (?:ONLY )?\w+ VALIDATE CONSTRAINT|ALTER INDEX) /i

export async function runConcurrently(session: MigrationSession, file: MigrationFile): Promise<void> {
  const statements = statementsIn(file.sql)
  const unsafe = statements.find((statement) => !INDEX_BUILD.test(statement) && !REPEATABLE.test(statement))
  if (unsafe !== undefined) throw new Error(`a concurrent migration cannot repeat this statement: ${unsafe}`)
  for (const statement of statements) {
    const index = INDEX_BUILD.exec(statement)?.[1]
    await (index === undefined
      ? runShown(session, file.name, statement)
      : buildIndex(session, `${file.name}: ${index}`, index, statement))
  }
}

async function buildIndex(session: MigrationSession, what: string, index: string, statement: string): Promise<void> {
  const isValid = await findIndex(session, index)
  if (isValid) return
  if (isValid === false) await dropIndex(session, index)
  try {
    await runShown(session, what, statement)
  } catch (error) {
    // It would cost every insert, and a unique one would refuse rows.
    if ((await findIndex(session, index)) === false) await dropIndex(session, index)
    throw error
  }
}

/** @returns whether the index is valid; undefined when there is none */
async function findIndex({ client }: MigrationSession, index: string): Promise<boolean | undefined> {
  const text = 'SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)'
  return (await client.query<{ valid: boolean }>(text, [index])).rows[0]?.valid
}

const dropIndex = (session: MigrationSession, index: string) =>
  runShown(session, `${index}, which an interruption has left`, `DROP INDEX CONCURRENTLY ${index}`)

function runShown(session: MigrationSession, what: string, statement: string): Promise<void> {
  return watched(session, statement, (holders, progress) => {
    const said = [progress, holders.length > 0 && `waits for ${describeHolders(holders)}`].filter(Boolean).join(', ')
    if (said !== '') session.report(`${what}: ${said}`, true)
  })
}
