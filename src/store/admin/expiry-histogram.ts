/**
 * SQL of how many certificates expire when. Where there are many, a part of the table is counted
 * and scaled, so that it takes no longer.
 */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { constantSql, rowsOf, sql } from '../slonik.ts'

export const HISTOGRAM_GROUPS = ['issuer', 'profile'] as const
export type HistogramGroup = (typeof HISTOGRAM_GROUPS)[number]

const Bucket = z.object({ day: z.string(), group: z.string().nullable(), certificates: z.int() })
const Estimate = z.object({ rows: z.float64() })

/** Rows that are read in half a second; a bucket of 1 % of them is right within 7 %. */
const MOST_READ = 100_000

const GROUPS = {
  issuer: sql.fragment`encode(c.issuer_fingerprint, 'hex')`,
  profile: sql.fragment`(SELECT profile FROM orders WHERE id = c.order_id)`,
}

/** Unrevoked certificates by the day of their end (UTC) within `days`, the first day first. */
export async function expiryHistogram(db: CommonQueryMethods, by: HistogramGroup, days: number) {
  const { rows } = await db.one(rowsOf(Estimate)`
    SELECT greatest(reltuples, 0)::float8 AS rows FROM pg_class WHERE oid = 'certificates'::regclass`)
  const share = Math.min(1, MOST_READ / Math.max(1, rows))
  const sample = share < 1 ? constantSql(`TABLESAMPLE SYSTEM (${(share * 100).toFixed(6)})`) : sql.fragment``
  const buckets = await db.any(rowsOf(Bucket)`
    SELECT to_char(c.not_after AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, ${GROUPS[by]} AS group,
           round(count(*) / ${share}::float8)::integer AS certificates
      FROM certificates c ${sample}
     WHERE c.revoked_at IS NULL AND c.not_after > now() AND c.not_after < now() + make_interval(days => ${days})
     GROUP BY 1, 2 ORDER BY 1, 2`)
  return { buckets, isEstimate: share < 1 }
}
