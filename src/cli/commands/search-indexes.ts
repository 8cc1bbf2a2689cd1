/**
 * `chancery db search-indexes`: creates or drops the indexes for lists by name, issuer and contact.
 * The service may run meanwhile.
 */

import type { Config } from '../../config/schema.ts'
import { listProfiles } from '../../store/admin/profile-store.ts'
import { dropIndexes, HISTORY_INDEXES, makeIndexes, readIndexes, SEARCH_INDEXES } from '../../store/optional-indexes.ts'
import type { DatabasePool } from '../../store/slonik.ts'
import { withAdministration } from './administration.ts'

export function searchIndexes(config: Config, { drop }: { drop: boolean }): Promise<number> {
  return withAdministration(config, ({ db }) => (drop ? dropSearchIndexes(db) : makeSearchIndexes(db)))
}

async function dropSearchIndexes(db: DatabasePool): Promise<number> {
  // CSR profiles may depend on these indexes.
  const kept = (await listProfiles(db)).length > 0 ? Object.keys(HISTORY_INDEXES) : []
  const names = Object.keys(SEARCH_INDEXES).filter((name) => !kept.includes(name))
  await dropIndexes(db, names)
  console.log(`dropped: ${names.join(', ')}`)
  return 0
}

async function makeSearchIndexes(db: DatabasePool): Promise<number> {
  await makeIndexes(db, SEARCH_INDEXES)
  for (const { name, bytes } of await readIndexes(db, SEARCH_INDEXES))
    console.log(`${name.padEnd(20)}  ${Math.ceil(bytes / 1024 / 1024)} MiB`)
  return 0
}
