/**
 * How many certificates end when, and whose: `/certificates/expiry-histogram` and `/certificates/expiring-by-account`.
 *
 * Few are counted one by one, along certificates_not_after; of many a part of the table is counted and scaled, so that it
 * takes no longer.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { wholeParameter } from '../schemas.ts'
import { accountNameMember, withAccountNames } from './account-list.ts'
import { certificateSample } from './certificate-filter.ts'

/** Thresholds of certificates that end soon, in days. */
export const EXPIRY_DAYS = [1, 7, 14, 30] as const

const HISTOGRAM_GROUPS = ['issuer', 'profile'] as const
type HistogramGroup = (typeof HISTOGRAM_GROUPS)[number]

/** Accounts that are named. */
const MOST_ACCOUNTS = 10

const isEstimate = () =>
  z.boolean().meta({ description: 'True when the number is scaled from a sample of many certificates.' })

const Histogram = z
  .strictObject({
    is_estimate: isEstimate(),
    buckets: z.array(
      z.strictObject({
        day: z.iso.date(),
        group: z.string().nullable().meta({ description: 'Null where the order of a certificate is gone.' }),
        certificates: z.int(),
      }),
    ),
  })
  .meta({ id: 'ExpiryHistogram' })

const Expiring = z
  .array(z.strictObject({ days: z.int(), certificates: z.int() }))
  .meta({ description: `Unrevoked ones that end within so many days: ${EXPIRY_DAYS.join(', ')}.` })

const ExpiringByAccount = z
  .strictObject({
    is_estimate: isEstimate(),
    accounts: z
      .array(
        z.strictObject({
          account_id: z.uuid().nullable().meta({ description: 'Null for certificates that no account is known of.' }),
          account_name: accountNameMember(),
          contacts: z.array(z.string()),
          eab_kid: z.string().nullable(),
          expiring: Expiring,
        }),
      )
      .meta({ description: `The ${MOST_ACCOUNTS} with the most certificates within ${EXPIRY_DAYS.at(-1)} days.` }),
    others: Expiring,
  })
  .meta({ id: 'ExpiringByAccount' })

const byDays = (counts: readonly number[]) =>
  EXPIRY_DAYS.map((days, index) => ({ days, certificates: counts[index] ?? 0 }))

export const EXPIRY = endpointGroup('Certificates', {
  getExpiryHistogram: endpoint({
    route: 'GET /certificates/expiry-histogram',
    permission: 'read',
    query: z.strictObject({
      by: z.enum(HISTOGRAM_GROUPS).default('issuer'),
      days: wholeParameter(1, 400).default(90),
    }),
    reply: { status: 200, schema: Histogram },
    async handle({ query: { by, days } }, { db }) {
      const { buckets, isEstimate } = await expiryHistogram(db, by, days)
      return { body: { is_estimate: isEstimate, buckets: [...buckets] } }
    },
  }),
  getExpiringByAccount: endpoint({
    route: 'GET /certificates/expiring-by-account',
    permission: 'read',
    reply: { status: 200, schema: ExpiringByAccount },
    async handle(_request, { db }) {
      const { accounts, others, isEstimate } = await expiringByAccount(db)
      return {
        body: {
          is_estimate: isEstimate,
          accounts: (await withAccountNames(db, accounts)).map(({ expiring, ...account }) => ({
            ...account,
            expiring: byDays(expiring),
          })),
          others: byDays(others),
        },
      }
    },
  }),
})

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

const LONGEST = EXPIRY_DAYS.at(-1) as number
const arrayOf = (counts: ReturnType<typeof endingWithin>[]) =>
  sql.fragment`ARRAY[${sql.join(counts, sql.fragment`, `)}]`

/** Unrevoked certificates that end within `EXPIRY_DAYS`: the accounts with the most, and all others together. */
export async function expiringByAccount(db: CommonQueryMethods) {
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
