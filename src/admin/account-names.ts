/** Names of accounts beside their ids in replies. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { namesOf } from '../store/account-names.ts'

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
