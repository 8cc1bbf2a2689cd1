/**
 * `chancery db search-indexes`: creates or drops the indexes of optional-indexes.ts.
 * The service may run meanwhile.
 */

import { isAnyProfileStored } from '../../admin/profiles/profile-store.ts'
import {
  dropIndexes,
  HISTORY_INDEXES,
  type IndexDefinitions,
  makeIndexes,
  readIndexes,
  SEARCH_INDEXES,
} from '../../store/optional-indexes.ts'
import type { DatabasePool } from '../../store/slonik.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import { tell } from '../printing.ts'
import type { Printing } from '../values.ts'

type IndexOptions = Printing & { drop: boolean; history: boolean }

export async function searchIndexes({ config: file, drop, history, json }: IndexOptions): Promise<number> {
  const config = await readConfigFile(file)
  const wanted = { ...SEARCH_INDEXES, ...(history && HISTORY_INDEXES) }
  return withAdministration(config, ({ db }) => (drop ? dropSearchIndexes(db, json) : makeAll(db, wanted, json)))
}

async function dropSearchIndexes(db: DatabasePool, json: boolean): Promise<number> {
  // CSR profiles may depend on these indexes.
  const kept = (await isAnyProfileStored(db)) ? Object.keys(HISTORY_INDEXES) : []
  const names = Object.keys(SEARCH_INDEXES).filter((name) => !kept.includes(name))
  await dropIndexes(db, names)
  tell(json, { dropped: names }, `dropped: ${names.join(', ')}`)
  return 0
}

async function makeAll(db: DatabasePool, wanted: IndexDefinitions, json: boolean): Promise<number> {
  await makeIndexes(db, wanted)
  const indexes = await readIndexes(db, wanted)
  tell(
    json,
    { indexes },
    ...indexes.map(({ name, bytes }) => `${name.padEnd(20)}  ${Math.ceil(bytes / 1024 / 1024)} MiB`),
  )
  return 0
}
