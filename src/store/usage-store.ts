/** SQL of the daily quotas that accounts have used (`quotas.*`), by days in UTC. */

import type { Batched } from '../shared/lib/batcher.ts'
import { batched, type Database, type Statement } from './database.ts'

export type UsageKind = 'orders' | 'certificates'

export interface UsageStore {
  /**
   * Counts one for the account, unless its day is full. Returns the day it counted on
   * (`2026-03-01`), else undefined.
   */
  charge: Record<UsageKind, Batched<{ accountId: string; limit: number }, string | undefined>>
  /** Gives back one of that day that was not used. */
  refund(kind: UsageKind, accountId: string, day: string): Promise<void>
  /** Removes the days before yesterday. @returns how many rows */
  sweep(): Promise<number>
}

const TODAY = "(now() AT TIME ZONE 'UTC')::date"

const chargeStatement = (kind: UsageKind): Statement => ({
  name: `usage-charge-${kind}`,
  // account_usage_pkey, one row for each account of the batch, sorted by account.
  text: `
    INSERT INTO account_usage AS u (day, account_id, ${kind}, granted)
    SELECT ${TODAY}, account_id, least(wanted, most), least(wanted, most)
      FROM unnest($1::uuid[], $2::integer[], $3::integer[]) AS i (account_id, wanted, most)
     ORDER BY account_id
    ON CONFLICT (day, account_id) DO UPDATE
      SET granted = least(EXCLUDED.granted, $4::integer - u.${kind}),
          ${kind} = u.${kind} + least(EXCLUDED.granted, $4::integer - u.${kind})
      WHERE u.${kind} < $4::integer
    RETURNING account_id, granted, day::text`,
})

const refundStatement = (kind: UsageKind): Statement => ({
  name: `usage-refund-${kind}`,
  text: `UPDATE account_usage SET ${kind} = greatest(${kind} - 1, 0) WHERE day = $1 AND account_id = $2`,
})

const SWEEP: Statement = {
  name: 'usage-sweep',
  // account_usage_pkey, one range
  text: `DELETE FROM account_usage WHERE day < ${TODAY} - 1 RETURNING 1`,
}

export function createUsageStore(db: Database): UsageStore {
  const charge = (kind: UsageKind) => {
    const statement = chargeStatement(kind)
    return batched(db, async (commands: readonly { accountId: string; limit: number }[]) => {
      const wanted = new Map<string, number>()
      for (const { accountId } of commands) wanted.set(accountId, (wanted.get(accountId) ?? 0) + 1)
      // All accounts share one limit, from the configuration.
      const limit = commands[0]?.limit ?? 0
      const rows = await db.pipeline.run<{ account_id: string; granted: number; day: string }>(statement, [
        [...wanted.keys()],
        [...wanted.values()],
        [...wanted].map(() => limit),
        limit,
      ])
      const charged = new Map(rows.map((row) => [row.account_id, row]))
      return commands.map(({ accountId }) => {
        const row = charged.get(accountId)
        return row && row.granted-- > 0 ? row.day : undefined
      })
    })
  }

  return {
    charge: { orders: charge('orders'), certificates: charge('certificates') },
    async refund(kind, accountId, day) {
      await db.query(refundStatement(kind), [day, accountId])
    },
    sweep: async () => (await db.query(SWEEP, [])).length,
  }
}
