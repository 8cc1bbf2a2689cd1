/** SQL that both kinds of issuance share: how an order begins, and what ends it before a signature. */

import type { Batched, CommandTraits } from '../shared/lib/batcher.ts'
import { HISTORY, type HistoryRow, type IssuanceHistoryQuery, valuesOfHistory } from './account-rules-store.ts'
import { batched, type Database, type Statement } from './database.ts'
import { account, authorization, order, quoted } from './status-sql.ts'

/** Conditions on the history at the moment in which an order begins. */
export interface HistoryDemands extends IssuanceHistoryQuery {
  keyIsNew: boolean
  isDue: boolean
}

const LOCK: Statement = { name: 'history-lock', text: 'SELECT pg_advisory_xact_lock(712103)' }

type Transaction = Pick<Database, 'query'>

/** @param begin false when the order is not ready */
export function beginsByHistory<C>(
  db: Database,
  demandsOf: (command: C) => HistoryDemands,
  begin: (tx: Transaction, command: C) => Promise<boolean>,
  traits: CommandTraits<C>,
): Batched<C, boolean> {
  const flush = (commands: readonly C[]) =>
    db.transaction(async (tx) => {
      await tx.query(LOCK, [])
      const begun: boolean[] = []
      for (const command of commands) begun.push((await allows(tx, demandsOf(command))) && (await begin(tx, command)))
      return begun
    })
  // They wait for one lock: eight at once would hold that many connections of a front, and begin nothing sooner.
  return batched(db, flush, { ...traits, maxConcurrent: 1 })
}

async function allows(tx: Transaction, { keyIsNew, isDue, ...query }: HistoryDemands): Promise<boolean> {
  const [history] = await tx.query<HistoryRow>(HISTORY, valuesOfHistory([query]))
  if (!history) throw new Error('the history of issuance has no answer')
  return !(keyIsNew && history.key_certified) && !(isDue && history.not_due)
}

/**
 * CRLReason of what was issued for an order that had ended: cessationOfOperation (RFC 5280 §5.3.1).
 * superseded would promise a successor.
 */
export const LATE_REASON = 5

/**
 * Why recovery gives up an order: it has expired, or a condition of `begin` no longer holds. An
 * authorization that has expired since then does not count.
 */
export type Lapse = 'expired' | 'account not valid' | 'key blocked' | 'authorization withdrawn'

/**
 * The common table expressions `moved` and `released`: orders ready → processing.
 * @param given rows `i` with order_id, account_id, key_version, csr_profile, grants and spki_sha256
 */
export const movedToProcessing = (given: string): string => `moved AS (
      UPDATE orders o SET status = ${order.after('finalize')}
        FROM ${given}
        JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
       WHERE o.id = i.order_id AND o.account_id = i.account_id AND o.status ${order.allows('finalize')} AND o.expires_at > now()
         -- The status is outside the WHERE: a plan made on an empty table would take the whole of
         -- authorizations_reusable for a short way to it.
         AND (SELECT count(*) FILTER (WHERE z.status ${authorization.is('valid')} AND z.expires_at > now()) FROM authorizations z
               WHERE z.id = ANY (o.authorization_ids)) = greatest(cardinality(o.authorization_ids), 1)
         AND NOT EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = i.spki_sha256)
         AND (SELECT p.id || ' ' || p.xmin::text FROM account_csr_profiles x JOIN csr_profiles p ON p.id = x.csr_profile_id
               WHERE x.account_id = a.id) IS NOT DISTINCT FROM i.csr_profile
         AND (i.grants IS NULL
              OR (SELECT count(*) FROM account_allowed_identifiers x
                   WHERE x.account_id = a.id AND x.identifier_id = ANY (string_to_array(i.grants, ' ')::uuid[]))
                 = cardinality(string_to_array(i.grants, ' ')))
      RETURNING i.*, o.request_key
    ), released AS (
      -- From here on an equal new-order makes an order of its own.
      DELETE FROM order_claims c USING moved WHERE c.request_key = moved.request_key AND c.order_id = moved.order_id
    )`

/** Why the order of a row `n` (order_id, account_id, spki_sha256) cannot be issued any more; null while it can. */
export const LAPSE = `CASE
                WHEN (SELECT o.expires_at <= now() FROM orders o WHERE o.id = n.order_id) THEN ${quoted<Lapse>('expired')}
                WHEN (SELECT a.status ${account.isNot('valid')} FROM accounts a WHERE a.id = n.account_id) THEN 'account not valid'
                WHEN EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = n.spki_sha256) THEN 'key blocked'
                WHEN EXISTS (SELECT FROM orders o JOIN authorizations z ON z.id = ANY (o.authorization_ids)
                              WHERE o.id = n.order_id AND z.status ${authorization.is('deactivated', 'revoked')}) THEN 'authorization withdrawn'
              END`
