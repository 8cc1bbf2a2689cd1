/** SQL of account_activity: when an account was last seen, and with which client. */

import type { Database, Statement } from './database.ts'

export interface SeenAccount {
  accountId: string
  /** Null when the client sent none. */
  userAgent: string | null
  seenAt: Date
}

const RECORD: Statement = {
  name: 'account-activity-record',
  // In the order of ids, so that two instances do not wait for each other; accounts_pkey.
  text: `
    INSERT INTO account_activity AS a (account_id, user_agent, last_seen_at)
    SELECT DISTINCT ON (s.account_id) s.account_id, s.user_agent, s.seen_at
      FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS s (account_id, user_agent, seen_at)
      JOIN accounts ON accounts.id = s.account_id
     ORDER BY s.account_id, s.seen_at DESC
    ON CONFLICT (account_id) DO UPDATE
       SET user_agent = excluded.user_agent, last_seen_at = excluded.last_seen_at
     WHERE a.last_seen_at < excluded.last_seen_at OR a.last_seen_at > now() + interval '1 day'`,
}

/** An account may be named more than once; accounts that are gone are left out. */
export async function recordActivity(db: Pick<Database, 'query'>, seen: readonly SeenAccount[]): Promise<void> {
  const ids = seen.map(({ accountId }) => accountId)
  const userAgents = seen.map(({ userAgent }) => userAgent)
  await db.query(RECORD, [ids, userAgents, seen.map(({ seenAt }) => seenAt.toISOString())])
}
