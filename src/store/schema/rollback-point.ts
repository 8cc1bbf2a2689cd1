/** How far back an operator may go: which releases can serve on the database as it is, and what a restore would lose. */

import type pg from '../pg.ts'
import type { DatabaseSettings } from '../session.ts'
import { MIGRATIONS_DIR, type MigrationFile, readMigration } from './migration-files.ts'
import { schemaStateOf, withSchemaSession } from './schema-state.ts'

export interface RollbackPoint {
  /** The newest migration of the database; 0 for an empty one. */
  schema: number
  /** The schema of the oldest release that can serve on it; undefined where a newer release does not say. */
  oldestRelease: number | undefined
  /** Migrations that such a release does not know, and what it therefore does not do; undefined where it misses nothing. */
  without: { name: string; goingBack: string | undefined }[]
  /** The last migration that has excluded releases; undefined when none has. */
  excluded: { name: string; appliedAt: Date; certificates: number; revocations: number } | undefined
  /** A pending migration that will exclude releases. */
  next: { name: string; contract: number } | undefined
}

/** @throws UnreleasedSchema */
export async function readRollbackPoint(settings: DatabaseSettings, folder = MIGRATIONS_DIR): Promise<RollbackPoint> {
  return withSchemaSession(settings, async (client) => {
    const { applied, pending, unknown, oldestRelease } = await schemaStateOf(client, folder)
    const files = await Promise.all([...applied, ...pending].map((migration) => readMigration(folder, migration)))
    const [done, missing] = [files.slice(0, applied.length), files.slice(applied.length)]
    const contracts = done.filter(({ contract }) => contract !== undefined)
    const next = missing.find(({ contract }) => contract !== undefined)
    return {
      schema: Math.max(0, ...applied.map(({ version }) => version), ...unknown),
      oldestRelease,
      without: done
        .filter(({ version }) => version > (oldestRelease ?? version))
        .map(({ name, goingBack }) => ({ name, goingBack })),
      excluded: await excludedBy(client, contracts.at(-1)),
      next: next && { name: next.name, contract: next.contract as number },
    }
  })
}

/** What came after it is in no backup that the excluded releases can use. */
async function excludedBy(client: pg.Client, file: MigrationFile | undefined): Promise<RollbackPoint['excluded']> {
  if (!file) return undefined
  const text = `
    SELECT m.applied_at AS "appliedAt",
           (SELECT count(*)::float8 FROM certificates c WHERE c.issued_at >= m.applied_at) AS certificates,
           (SELECT count(*)::float8 FROM certificates c WHERE c.revoked_at >= m.applied_at) AS revocations
      FROM schema_migrations m WHERE m.version = $1`
  type Row = { appliedAt: Date; certificates: number; revocations: number }
  const [row] = (await client.query<Row>(text, [file.version])).rows
  return row && { name: file.name, ...row }
}
