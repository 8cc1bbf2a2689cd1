/**
 * SQL of how many certificates end when, and whose. Few are counted one by one, along certificates_not_after;
 * of many a part of the table is counted and scaled, so that it takes no longer.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'
import { certificateSample } from './certificate-filter.ts'

/** Thresholds of certificates that end soon, in days. */
export const EXPIRY_DAYS = [1, 7, 14, 30] as const

export const HISTOGRAM_GROUPS = ['issuer', 'profile'] as const
type HistogramGroup = (typeof HISTOGRAM_GROUPS)[number]

const Bucket = z.object({ day: z.string(), group: z.string().nullable(), certificates: z.int() })
const Ending = z.object({ certificates: z.int() })

/** Rows that are read within 2 s where they lie apart on the disk; a bucket of 1 % of them is right within 10 %. */
const MOST_READ = 50_000
/** Rows that an index finds in half a second where they lie apart on the disk. */
const MOST_ALONG_INDEX = 20_000

const GROUPS = {
  issuer: sql.fragment`encode(c.issuer_fingerprint, 'hex')`,
  profile: sql.fragment`(SELECT profile FROM orders WHERE id = c.order_id)`,
}

const endingWithin = (days: number) => sql.fragment`c.not_after < now() + make_interval(days => ${days})`

/**
 * Unrevoked certificates `c` that end within `days`, for FROM, and the share of them that it leaves:
 * 1 where all are read.
 */
async function endingCertificates(db: CommonQueryMethods, days: number) {
  const ending = sql.fragment`c.not_after > now() AND ${endingWithin(days)}`
  const { certificates } = await db.one(rowsOf(Ending)`
    SELECT count(*)::integer AS certificates
      FROM (SELECT FROM certificates c WHERE ${ending} LIMIT ${MOST_ALONG_INDEX + 1}) e`)
  const read = sql.fragment`SELECT c.account_id, c.order_id, c.issuer_fingerprint, c.not_after FROM certificates c`
  const fits = sql.fragment`c.revoked_at IS NULL AND ${ending}`
  if (certificates <= MOST_ALONG_INDEX)
    return { share: 1, ending: sql.fragment`(${read} WHERE ${fits} ORDER BY c.not_after LIMIT ${MOST_ALONG_INDEX}) c` }
  const { share, isInSample } = await certificateSample(db, MOST_READ)
  return { share, ending: sql.fragment`(${read} WHERE ${fits} AND ${isInSample}) c` }
}

/** By the day of their end (UTC), the first day first. */
export async function expiryHistogram(db: CommonQueryMethods, by: HistogramGroup, days: number) {
  const { share, ending } = await endingCertificates(db, days)
  const buckets = await db.any(rowsOf(Bucket)`
    SELECT to_char(c.not_after AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, ${GROUPS[by]} AS group,
           round(count(*) / ${share}::float8)::integer AS certificates
      FROM ${ending} GROUP BY 1, 2 ORDER BY 1, 2`)
  return { buckets, isEstimate: share < 1 }
}

/** Accounts that are named. */
export const MOST_ACCOUNTS = 10

/** In the order of `EXPIRY_DAYS`. Rounded at last: of many small accounts each would lose its fraction. */
const Counts = z.array(z.number())
const Account = z.object({
  account_id: z.string().nullable(),
  contacts: z.array(z.string()),
  eab_kid: z.string().nullable(),
  expiring: Counts,
  /** The sums over all accounts, in each row. */
  total: Counts,
})

interface ExpiringByAccount {
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
