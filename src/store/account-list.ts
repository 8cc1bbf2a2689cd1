/**
 * SQL of the list of accounts, newest first. The index is accounts_eab_credential for a credential,
 * accounts_not_valid for a rare status, otherwise accounts_pkey. accounts_contacts exists only on
 * request (optional-indexes.ts).
 */

import { z } from 'zod/v4'
import { ACCOUNT_STATUSES, type AccountStatus } from '../domain/account-state.ts'
import {
  allOf,
  behind,
  type Fragment,
  hasIndex,
  type ListPage,
  readPage,
  unbounded,
  upTo,
  type Walk,
} from './list-page.ts'
import { constantSql, type DatabasePool, rowsOf, sql } from './slonik.ts'
import { account } from './status-sql.ts'

export interface AccountFilter {
  status?: AccountStatus
  /** One of its contacts, such as `mailto:ops@example.com`. */
  contact?: string
  /** Key id of the credential it was registered with. */
  eabKid?: string
}

const Row = z.object({
  id: z.string(),
  status: z.enum(ACCOUNT_STATUSES),
  thumbprint: z.string(),
  contacts: z.array(z.string()),
  created_at: z.date(),
})
export type ListedAccount = z.infer<typeof Row>
const Id = z.object({ id: z.string() })

/** @param after the cursor of the previous page */
export async function listAccounts(
  db: DatabasePool,
  { status, contact, eabKid }: AccountFilter,
  after: string | undefined,
  limit: number,
): Promise<ListPage<ListedAccount>> {
  const id = sql.fragment`a.id`
  const hasContacts = contact !== undefined && (await hasIndex(db, 'accounts_contacts'))
  // The planner expects thousands of accounts a contact and would read all by id.
  const accounts = hasContacts
    ? sql.fragment`(SELECT * FROM accounts WHERE contacts @> ${sql.array([contact], 'text')} OFFSET 0)`
    : sql.fragment`accounts`
  const fits: Fragment[] = [
    ...(status === undefined ? [] : [sql.fragment`a.status = ${status}`]),
    // Repeats the index's condition, so that the partial index serves either status.
    ...(status === undefined || status === 'valid' ? [] : [constantSql(`a.status ${account.isNot('valid')}`)]),
    ...(contact === undefined ? [] : [sql.fragment`a.contacts @> ${sql.array([contact], 'text')}`]),
    ...(eabKid === undefined
      ? []
      : [sql.fragment`a.eab_credential_id = (SELECT id FROM eab_credentials WHERE kid = ${eabKid})`]),
  ]
  const walk: Walk<ListedAccount> = {
    cursorOf: (row) => row.id,
    async windowEnd(from, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT a.id FROM accounts a WHERE ${allOf([behind(id, from)])} ORDER BY a.id DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(from, end, count) {
      return [
        ...(await db.any(rowsOf(Row)`
          SELECT a.id, a.status, a.thumbprint, a.contacts, a.created_at FROM ${accounts} a
           WHERE ${allOf([behind(id, from), upTo(id, end), ...fits])}
           ORDER BY a.id DESC LIMIT ${count}`)),
      ]
    },
  }
  const isNarrow = eabKid !== undefined || (status !== undefined && status !== 'valid') || hasContacts
  return readPage(isNarrow ? unbounded(walk) : walk, after, limit)
}
