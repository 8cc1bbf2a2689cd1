/** SQL of renewal windows that somebody has set: the operator's advice, and what the CA behind this service suggests. */

import * as z from 'zod/v4'
import type { RenewalAdvice, WindowPolicy } from '../../domain/renewal-window.ts'
import { type Fragment, instant } from '../../store/list-page.ts'
import { type CommonQueryMethods, rowsOf, sql } from '../../store/slonik.ts'

const Row = z.object({
  id: z.string(),
  advised_start: z.date().nullable(),
  advised_end: z.date().nullable(),
  upstream_start: z.date().nullable(),
  upstream_end: z.date().nullable(),
})

interface SetWindows {
  advice: RenewalAdvice | undefined
  upstream: RenewalAdvice | undefined
}

/** A certificate whose window follows from its lifetime is missing from the result. */
export async function windowsOf(
  db: CommonQueryMethods,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SetWindows>> {
  if (ids.length === 0) return new Map()
  // renewal_advice_pkey, upstream_renewals_pkey
  const rows = await db.any(rowsOf(Row)`
    SELECT coalesce(a.certificate_id, u.certificate_id) AS id, a.window_start AS advised_start, a.window_end AS advised_end,
           u.window_start AS upstream_start, u.window_end AS upstream_end
      FROM (SELECT * FROM renewal_advice WHERE certificate_id = ANY (${sql.array([...ids], 'uuid')})) a
      FULL JOIN (SELECT * FROM upstream_renewals WHERE certificate_id = ANY (${sql.array([...ids], 'uuid')})) u
           ON u.certificate_id = a.certificate_id`)
  return new Map(
    rows.map((row) => [
      row.id,
      {
        advice: windowOf(row.advised_start, row.advised_end),
        upstream: windowOf(row.upstream_start, row.upstream_end),
      },
    ]),
  )
}

const windowOf = (start: Date | null, end: Date | null): RenewalAdvice | undefined =>
  start && end ? { window: { start, end }, explanationUrl: undefined } : undefined

export interface OpenWindow extends Pick<WindowPolicy, 'renewalPercentage'> {
  now: Date
}

/** Whether the window of an unrevoked certificate `c` is open, by the order of `renewalWindow`. */
export const isWindowOpen = ({ renewalPercentage, now }: OpenWindow): Fragment => {
  const set = (table: Fragment) => sql.fragment`(SELECT w.window_start FROM ${table} w WHERE w.certificate_id = c.id)`
  return sql.fragment`
    coalesce(${set(sql.fragment`renewal_advice`)}, ${set(sql.fragment`upstream_renewals`)},
             c.not_before + (c.not_after - c.not_before + interval '1 second') * ${renewalPercentage}::float8)
      <= ${instant(now)}`
}
