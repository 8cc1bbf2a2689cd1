/** Certificates with a name that is a suffix, or lies below it: `example.com`, `www.example.com`. */

import { z } from 'zod/v4'
import type { Fragment } from './list-page.ts'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

/** Conditions on `c`. For rows that another index finds: not LIKE, which has wildcards. */
export const isBelow = (suffix: string): Fragment => sql.fragment`
  EXISTS (SELECT FROM unnest(c.names) n WHERE n = ${suffix} OR right(n, ${suffix.length + 1}) = ${`.${suffix}`})`

/** The same, by certificates_suffixes. */
export const hasSuffix = (suffix: string): Fragment =>
  sql.fragment`name_suffixes(c.names) @> ${sql.array([suffix], 'text')}`

/** Rows that certificates_suffixes may find: the index has no order, so a page reads all of them. */
const MOST_FOUND = 20_000
/** 8 KiB each; they have some 2,000 certificates. */
const SAMPLED_BLOCKS = 200

const Share = z.object({ is_rare: z.boolean() })

/** Estimated from blocks of the whole table, so a name of past years counts as one of today. */
export async function isRareSuffix(db: DatabasePool, suffix: string): Promise<boolean> {
  const percent = sql.fragment`
    least(100, 100.0 * ${SAMPLED_BLOCKS} * 8192 / greatest(pg_relation_size('certificates'), 1))`
  const row = await db.one(rowsOf(Share)`
    SELECT count(*) * 100 <= ${MOST_FOUND} * ${percent} AS is_rare
      FROM certificates c TABLESAMPLE SYSTEM (${percent}) WHERE ${isBelow(suffix)}`)
  return row.is_rare
}
