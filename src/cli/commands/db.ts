/** `chancery db status` and `chancery db migrate`. */

import type { Config } from '../../config/schema.ts'
import { databaseSettings } from '../../settings/server.ts'
import { openDatabase } from '../../store/database.ts'
import { durabilityWarnings } from '../../store/durability.ts'
import { migrate, readSchemaState } from '../../store/migrate.ts'

/** @returns 0 when the schema matches this release, else 1 */
export async function databaseStatus(config: Config): Promise<number> {
  const settings = databaseSettings(config)
  console.log(`database ${settings.database} at ${settings.host}:${settings.port}`)
  const { applied, pending, unknown } = await readSchemaState(settings)
  for (const { name } of applied) console.log(`  applied  ${name}`)
  for (const { name } of pending) console.log(`  missing  ${name}`)
  for (const version of unknown) console.log(`  unknown  ${String(version).padStart(4, '0')}, from a newer release`)
  const current = pending.length === 0 && unknown.length === 0
  const db = openDatabase({ ...settings, maxConnections: 1 }, () => undefined)
  try {
    for (const warning of await durabilityWarnings(db)) console.log(`warning: ${warning}`)
  } finally {
    await db.close()
  }
  console.log(current ? 'the schema is current' : 'the schema is not the one of this release')
  return current ? 0 : 1
}

export async function databaseMigrate(config: Config): Promise<number> {
  const applied = await migrate(databaseSettings(config))
  for (const { name } of applied) console.log(`applied ${name}`)
  console.log(applied.length === 0 ? 'nothing to do: the schema is current' : `${applied.length} migration(s) applied`)
  return 0
}
