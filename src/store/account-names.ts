/** SQL of the names of accounts, for a page of ids. */

import * as z from 'zod/v4'
import { accountName } from '../domain/account-name.ts'
import { type CommonQueryMethods, rowsOf, sql } from './slonik.ts'

const Naming = z.object({
  id: z.string(),
  label: z.string().nullable(),
  contacts: z.array(z.string()),
  eab_kid: z.string().nullable(),
})

/** An id without an account is missing from the result. */
export async function namesOf(db: CommonQueryMethods, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map()
  // accounts_pkey and eab_credentials_pkey, one row each
  const rows = await db.any(rowsOf(Naming)`
    SELECT a.id, a.label, a.contacts, (SELECT kid FROM eab_credentials WHERE id = a.eab_credential_id) AS eab_kid
      FROM accounts a WHERE a.id = ANY (${sql.array([...new Set(ids)], 'uuid')})`)
  return new Map(rows.map(({ eab_kid: eabKid, ...row }) => [row.id, accountName({ ...row, eabKid })]))
}
