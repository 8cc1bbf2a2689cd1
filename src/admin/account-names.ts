/** Replies say beside the id of an account its name, its client, and when it was last seen. */

import * as z from 'zod/v4'
import { type CommonQueryMethods, rowsOf, sql } from '../store/slonik.ts'
import { timeOrNull, timestamp } from './schemas.ts'

export interface AccountNaming {
  id: string
  /** Given by an administrator. */
  label: string | null
  contacts: readonly string[]
  /** The key identifier of the credential that registered the account (RFC 8555 §7.3.4). */
  eabKid: string | null
}

/** The beginning of a UUIDv7 is its time, which many accounts share. */
const SHORT_ID = 12

/** Its label, else its first contact, else its kid, else the end of its id. */
export function accountName({ id, label, contacts, eabKid }: AccountNaming): string {
  return label ?? contacts[0]?.replace(/^mailto:/i, '') ?? eabKid ?? id.slice(-SHORT_ID)
}

/** The member `account_name` of a body that has `account_id`. */
export const accountNameMember = () =>
  z.string().nullable().meta({
    description:
      'Its label, else its first contact, else its kid, else the end of its id. Null where no account is known.',
  })

type Named<R> = R & { account_name: string | null }

/** @param rows of one page: their accounts are read with one statement */
export async function withAccountNames<R extends { account_id: string | null }>(
  db: CommonQueryMethods,
  rows: readonly R[],
): Promise<Named<R>[]> {
  const names = await namesOf(
    db,
    rows.flatMap(({ account_id: id }) => id ?? []),
  )
  return rows.map((row) => ({ ...row, account_name: names.get(row.account_id ?? '') ?? null }))
}

export async function withAccountName<R extends { account_id: string | null }>(
  db: CommonQueryMethods,
  row: R,
): Promise<Named<R>> {
  const [named = { ...row, account_name: null }] = await withAccountNames(db, [row])
  return named
}

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

/** The members `client` and `last_seen_at` of a body about an account. */
export const activityMembers = () => ({
  client: z.string().nullable().meta({
    description: 'The User-Agent of its client when it was last seen. Null: not known.',
  }),
  last_seen_at: timestamp().nullable().meta({
    description: 'Its last registration or order, to the hour. Null: not known.',
  }),
})

export const activityBody = (seen: { user_agent: string | null; last_seen_at: Date | null } | undefined) => ({
  client: seen?.user_agent ?? null,
  last_seen_at: timeOrNull(seen?.last_seen_at ?? null),
})
