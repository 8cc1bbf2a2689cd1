/**
 * `chancery db search-indexes`: creates or drops the indexes for lists by name, issuer and contact.
 * The service may run meanwhile.
 */

import type { Config } from '../../config/schema.ts'
import { listProfiles } from '../../store/admin/profile-store.ts'
import { dropIndexes, HISTORY_INDEXES, makeIndexes, readIndexes, SEARCH_INDEXES } from '../../store/optional-indexes.ts'
import type { DatabasePool } from '../../store/slonik.ts'
import { tell } from '../table.ts'
import { withAdministration } from './administration.ts'

export function searchIndexes(config: Config, { drop, json }: { drop: boolean; json: boolean }): Promise<number> {
  return withAdministration(config, ({ db }) => (drop ? dropSearchIndexes(db, json) : makeSearchIndexes(db, json)))
}

async function dropSearchIndexes(db: DatabasePool, json: boolean): Promise<number> {
  // CSR profiles may depend on these indexes.
  const kept = (await listProfiles(db)).length > 0 ? Object.keys(HISTORY_INDEXES) : []
  const names = Object.keys(SEARCH_INDEXES).filter((name) => !kept.includes(name))
  await dropIndexes(db, names)
  tell(json, { dropped: names }, `dropped: ${names.join(', ')}`)
  return 0
}

async function makeSearchIndexes(db: DatabasePool, json: boolean): Promise<number> {
  await makeIndexes(db, SEARCH_INDEXES)
  const indexes = await readIndexes(db, SEARCH_INDEXES)
  tell(
    json,
    { indexes },
    ...indexes.map(({ name, bytes }) => `${name.padEnd(20)}  ${Math.ceil(bytes / 1024 / 1024)} MiB`),
  )
  return 0
}
