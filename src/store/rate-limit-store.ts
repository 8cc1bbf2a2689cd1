/** SQL of rate-limit counters shared by instances (`security.rate_limits.backend: database`). */

import type { Pace } from '../domain/rate-limit.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { batched, type Database, type Statement } from './database.ts'

interface KeyCharge {
  key: string
  pace: Pace
}

/** The first exhausted key of a request, and the microseconds until it has one again. */
interface Exceeded {
  key: string
  wait: number
}

export interface RateLimitStore {
  /** Charges all keys of a request or none, in one statement a batch. Keys of a request must differ. */
  charge: Batched<readonly KeyCharge[], Exceeded | undefined>
  /** Returns the charges of a request that was not served. */
  giveBack(charges: readonly KeyCharge[]): Promise<void>
  /** Removes keys that have had everything back for `ageSeconds`. @returns how many */
  sweep(ageSeconds: number): Promise<number>
}

/** In microseconds: another statement may have charged the row a moment later. */
const SLACK = 60_000_000

/** The time of the row. No limit lets it lie further ahead: then a clock was wrong, and nothing counts as used up. */
const tat = (now: string) => `CASE WHEN r.tat <= ${now} + r.tolerance + r.step + ${SLACK} THEN r.tat ELSE 0 END`
const TAT = tat('EXCLUDED.tat - EXCLUDED.step * EXCLUDED.granted')

const CHARGE: Statement = {
  name: 'rate-limit-charge',
  // rate_limits_pkey, one row each, sorted so that statements cannot deadlock. The clock is the
  // database's, because instances differ; in DO UPDATE it is `EXCLUDED.tat` less its charge.
  text: `
    WITH k AS (
      SELECT i.*, least(wanted, tolerance / step + 1)::integer AS most, clock.now
        FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[]) AS i (key, step, tolerance, wanted),
             (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
    ), charged AS (
      INSERT INTO rate_limits AS r (key, tat, step, tolerance, granted)
      SELECT key, now + step * most, step, tolerance, most FROM k ORDER BY key COLLATE "C"
      ON CONFLICT (key) DO UPDATE
        SET granted = least(EXCLUDED.granted, rate_limit_fitting(
              ${TAT}, EXCLUDED.step, EXCLUDED.tolerance, EXCLUDED.tat - EXCLUDED.step * EXCLUDED.granted)),
            tat = greatest(${TAT}, EXCLUDED.tat - EXCLUDED.step * EXCLUDED.granted)
                + EXCLUDED.step * least(EXCLUDED.granted, rate_limit_fitting(
                    ${TAT}, EXCLUDED.step, EXCLUDED.tolerance, EXCLUDED.tat - EXCLUDED.step * EXCLUDED.granted)),
            step = EXCLUDED.step,
            tolerance = EXCLUDED.tolerance
        WHERE ${TAT} <= EXCLUDED.tat - EXCLUDED.step * EXCLUDED.granted + EXCLUDED.tolerance
      RETURNING key, tat, granted
    )
    SELECT k.key, coalesce(c.granted, 0) AS granted,
           greatest(coalesce(c.tat, r.tat, k.now + k.tolerance + k.step) - k.tolerance - k.now, 0)::float8 AS wait
      FROM k LEFT JOIN charged c USING (key) LEFT JOIN rate_limits r ON c.key IS NULL AND r.key = k.key`,
}

const REFUND: Statement = {
  name: 'rate-limit-refund',
  // rate_limits_pkey, locked in the same order as by CHARGE.
  text: `
    WITH locked AS (
      SELECT key FROM rate_limits WHERE key = ANY ($1::text[]) ORDER BY key COLLATE "C" FOR UPDATE
    )
    UPDATE rate_limits r SET tat = r.tat - i.step * i.count
      FROM unnest($1::text[], $2::bigint[], $3::integer[]) AS i (key, step, count) JOIN locked USING (key)
     WHERE r.key = i.key`,
}

/** Rows deleted by one statement, so that none holds its locks for long. */
const SWEEP_ROWS = 1000

const SWEEP: Statement = {
  name: 'rate-limit-sweep',
  // rate_limits_tat_hour, two ranges; the second is what a clock that was ahead has left. Skips rows that are being charged.
  text: `
    DELETE FROM rate_limits WHERE key = ANY (ARRAY(
      SELECT key FROM rate_limits
       WHERE tat_hour < floor((extract(epoch FROM now()) - $1) / 3600)
          OR tat_hour > floor(extract(epoch FROM now()) / 3600)
             AND tat > (extract(epoch FROM now()) * 1000000)::bigint + tolerance + step + ${SLACK}
       LIMIT ${SWEEP_ROWS} FOR UPDATE SKIP LOCKED))
    RETURNING 1`,
}

interface Tally {
  pace: Pace
  wanted: number
  /** Granted by the database, not yet given to a request. */
  left: number
  wait: number
}

interface Charged {
  exceeded: Exceeded | undefined
  /**
   * Charges of the batch for requests that another key refused. Set on the first refused request, which refunds them.
   */
  over?: [string, Tally][]
}

export function createRateLimitStore(db: Database): RateLimitStore {
  const chargeKeys = batched(db, async (requests: readonly (readonly KeyCharge[])[]): Promise<Charged[]> => {
    const tallies = new Map<string, Tally>()
    for (const { key, pace } of requests.flat()) {
      const tally = tallies.get(key)
      if (tally) tally.wanted++
      else tallies.set(key, { pace, wanted: 1, left: 0, wait: 0 })
    }
    const entries = [...tallies]
    const rows = await db.pipeline.run<{ key: string; granted: number; wait: number }>(CHARGE, [
      entries.map(([key]) => key),
      entries.map(([, { pace }]) => pace.interval),
      entries.map(([, { pace }]) => pace.tolerance),
      entries.map(([, { wanted }]) => wanted),
    ])
    for (const { key, granted, wait } of rows) Object.assign(tallies.get(key) as Tally, { left: granted, wait })
    const results: Charged[] = requests.map((charges) => ({ exceeded: distribute(charges, tallies) }))
    const over = [...tallies].filter(([, { left }]) => left > 0)
    const refused = results.find(({ exceeded }) => exceeded)
    if (over.length > 0 && refused) refused.over = over
    return results
  })

  return {
    async charge(charges) {
      const { exceeded, over } = await chargeKeys(charges)
      if (over)
        await refund(
          db,
          over.map(([key, { pace, left }]) => ({ key, pace, count: left })),
        )
      return exceeded
    },

    giveBack: (charges) =>
      refund(
        db,
        charges.map((charge) => ({ ...charge, count: 1 })),
      ),

    async sweep(ageSeconds) {
      for (let removed = 0; ; ) {
        const rows = await db.query(SWEEP, [ageSeconds])
        removed += rows.length
        if (rows.length < SWEEP_ROWS) return removed
      }
    },
  }
}

/** A request passes if every key of it has a charge left. */
function distribute(charges: readonly KeyCharge[], tallies: ReadonlyMap<string, Tally>): Exceeded | undefined {
  for (const { key } of charges) {
    const { left, wait } = tallies.get(key) as Tally
    if (left === 0) return { key, wait }
  }
  for (const { key } of charges) (tallies.get(key) as Tally).left--
  return undefined
}

async function refund(db: Database, charges: readonly (KeyCharge & { count: number })[]): Promise<void> {
  await db.pipeline.run(REFUND, [
    charges.map(({ key }) => key),
    charges.map(({ pace }) => pace.interval),
    charges.map(({ count }) => count),
  ])
}
