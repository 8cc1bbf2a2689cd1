/** SQL of whose certificates end soon, counted or estimated as in expiry-histogram.ts. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'
import { EXPIRY_DAYS } from '../operation/overview-store.ts'
import { endingCertificates, endingWithin } from './expiry-histogram.ts'

/** Accounts that are named. */
export const MOST_ACCOUNTS = 10

/** In the order of `EXPIRY_DAYS`. Rounded at last: of many small accounts each would lose its fraction. */
const Counts = z.array(z.number())
const Account = z.object({
  account_id: z.string().nullable(),
  contacts: z.array(z.string()),
  eab_kid: z.string().nullable(),
  expiring: Counts,
  /** Of all accounts, in each row. */
  total: Counts,
})

export interface ExpiringByAccount {
  accounts: Omit<z.infer<typeof Account>, 'total'>[]
  others: number[]
  isEstimate: boolean
}

const LONGEST = EXPIRY_DAYS.at(-1) as number
const arrayOf = (counts: ReturnType<typeof endingWithin>[]) =>
  sql.fragment`ARRAY[${sql.join(counts, sql.fragment`, `)}]`

/** Unrevoked certificates that end within `EXPIRY_DAYS`: the accounts with the most, and all others together. */
export async function expiringByAccount(db: CommonQueryMethods): Promise<ExpiringByAccount> {
  const { share, ending } = await endingCertificates(db, LONGEST)
  const counts = EXPIRY_DAYS.map(
    (days) => sql.fragment`count(*) FILTER (WHERE ${endingWithin(days)}) / ${share}::float8`,
  )
  const sums = EXPIRY_DAYS.map((_, index) => sql.fragment`sum(expiring[${index + 1}]) OVER ()`)
  const rows = await db.any(rowsOf(Account)`
    SELECT n.account_id, coalesce(a.contacts, '{}') AS contacts, n.expiring, n.total,
           (SELECT kid FROM eab_credentials WHERE id = a.eab_credential_id) AS eab_kid
      FROM (SELECT account_id, expiring, ${arrayOf(sums)}::float8[] AS total
              FROM (SELECT c.account_id, ${arrayOf(counts)} AS expiring
                      FROM ${ending} GROUP BY c.account_id) g
             ORDER BY expiring[${EXPIRY_DAYS.length}] DESC, account_id LIMIT ${MOST_ACCOUNTS}) n
      LEFT JOIN accounts a ON a.id = n.account_id
     ORDER BY n.expiring[${EXPIRY_DAYS.length}] DESC, n.account_id`)
  const total = rows[0]?.total ?? EXPIRY_DAYS.map(() => 0)
  const named = (index: number) => rows.reduce((sum, { expiring }) => sum + (expiring[index] ?? 0), 0)
  return {
    accounts: rows.map(({ total: _, expiring, ...account }) => ({ ...account, expiring: expiring.map(Math.round) })),
    others: total.map((all, index) => Math.round(all - named(index))),
    isEstimate: share < 1,
  }
}
