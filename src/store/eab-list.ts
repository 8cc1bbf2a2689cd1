/** SQL of the list of binding credentials, newest first, along eab_credentials_pkey. */

import { z } from 'zod/v4'
import { allOf, behind, type ListPage, readPage, unbounded } from './list-page.ts'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

/** Without its key. */
const Row = z.object({
  id: z.string(),
  kid: z.string(),
  label: z.string().nullable(),
  account_id: z.string().nullable(),
  used_at: z.date().nullable(),
  used: z.boolean(),
  revoked: z.boolean(),
  created_at: z.date(),
  profiles: z.array(z.string()).nullable(),
  preapproved_networks: z.array(z.string()).nullable(),
})
export type ListedCredential = z.infer<typeof Row>

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
          ...(await db.any(rowsOf(Row)`
            SELECT id, kid, label, account_id, used, used_at, revoked, created_at, profiles,
                   preapproved_networks::text[] AS preapproved_networks
              FROM eab_credentials WHERE ${allOf([behind(id, from)])} ORDER BY id DESC LIMIT ${count}`)),
        ]
      },
    }),
    after,
    limit,
  )
}
