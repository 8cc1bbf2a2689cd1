/** SQL of the list of binding credentials, newest first, along eab_credentials_pkey. */

import { Credential, type CredentialRow, credentialColumns } from './admin/credential-store.ts'
import { allOf, behind, type ListPage, readPage, unbounded } from './list-page.ts'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

export type ListedCredential = CredentialRow

/** @param after the cursor of the previous page */
export function listEabCredentials(
  db: DatabasePool,
  after: string | undefined,
  limit: number,
): Promise<ListPage<ListedCredential>> {
  const id = sql.fragment`id`
  return readPage(
    unbounded({
      cursorOf: (row: ListedCredential) => row.id,
      windowEnd: async () => undefined,
      async read(from, _end, count) {
        return [
          ...(await db.any(rowsOf(Credential)`
            SELECT ${credentialColumns} FROM eab_credentials WHERE ${allOf([behind(id, from)])} ORDER BY id DESC LIMIT ${count}`)),
        ]
      },
    }),
    after,
    limit,
  )
}
