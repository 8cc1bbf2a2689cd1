/** SQL of the list of binding credentials, newest first, along eab_credentials_pkey. */

import { Credential, type CredentialRow, credentialColumns } from './admin/credential-store.ts'
import { type ListPage, pageById } from './list-page.ts'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

export type ListedCredential = CredentialRow

/** @param after the cursor of the previous page */
export function listEabCredentials(
  db: DatabasePool,
  after: string | undefined,
  limit: number,
): Promise<ListPage<ListedCredential>> {
  const read = pageById(sql.fragment`id`, (condition, count) =>
    db.any(rowsOf(Credential)`
      SELECT ${credentialColumns} FROM eab_credentials WHERE ${condition} ORDER BY id DESC LIMIT ${count}`),
  )
  return read(after, limit)
}
