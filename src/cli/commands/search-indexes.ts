/**
 * `chancery db search-indexes`: creates or drops the indexes for lists by name, issuer and contact.
 * The service may run meanwhile.
 */

import type { Config } from '../../config/schema.ts'
import { createCsrProfileStore } from '../../store/csr-profile-store.ts'
import { dropIndexes, HISTORY_INDEXES, makeIndexes, readIndexes, SEARCH_INDEXES } from '../../store/optional-indexes.ts'
import { withDatabase } from './operator-database.ts'

export function searchIndexes(config: Config, { drop }: { drop: boolean }): Promise<number> {
  return withDatabase(config, async (db) => {
    if (drop) {
      // CSR profiles may depend on these indexes.
      const kept = (await createCsrProfileStore(db).list()).length > 0 ? Object.keys(HISTORY_INDEXES) : []
      const names = Object.keys(SEARCH_INDEXES).filter((name) => !kept.includes(name))
      await dropIndexes(db, names)
      console.log(`dropped: ${names.join(', ')}`)
      return 0
    }
    await makeIndexes(db, SEARCH_INDEXES)
    for (const { name, bytes } of await readIndexes(db, SEARCH_INDEXES))
      console.log(`${name.padEnd(20)}  ${Math.ceil(bytes / 1024 / 1024)} MiB`)
    return 0
  })
}
