/** SQL of the rules of accounts at orders and finalizes: allowlists, CSR profiles with their history, daily quotas. */

import type { Grant } from '../domain/allowlist.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'
import { withoutNulls } from './batch-results.ts'
import { batched, type Database, type Statement } from './database.ts'

/** The identifiers that an account may request. */
export interface AllowlistStore {
  /** Keyed by account id. */
  find: Batched<string, readonly Grant[]>
}

const FIND_GRANTS: Statement = {
  name: 'allowlist-find',
  // account_allowed_identifiers_pkey, one range an account; allowed_identifiers_pkey
  text: `
    SELECT a.account_id, n.id, n.identifier_type, n.identifier_value
      FROM account_allowed_identifiers a JOIN allowed_identifiers n ON n.id = a.identifier_id
     WHERE a.account_id = ANY ($1::uuid[])
     ORDER BY n.identifier_type, n.identifier_value`,
}

interface IdentifierRow {
  account_id: string
  id: string
  identifier_type: IdentifierType
  identifier_value: string
}

export function createAllowlistStore(db: Database): AllowlistStore {
  return {
    find: batched(db, async (accountIds: readonly string[]) => {
      const rows = await db.pipeline.run<IdentifierRow>(FIND_GRANTS, [accountIds])
      const byAccount = new Map<string, Grant[]>(accountIds.map((id) => [id, []]))
      for (const { account_id, id, identifier_type: type, identifier_value: value } of rows)
        byAccount.get(account_id)?.push({ id, type, value })
      return accountIds.map((id) => byAccount.get(id) ?? [])
    }),
  }
}

interface CsrProfileRecord {
  id: string
  name: string
  description: string | undefined
  /** JSON text of `profile_data` as the database writes it; equal data has equal text. */
  data: string
  /** Another one after each change. */
  version: string
}

/** History that profiles with `reuse_key` or `renewal_window_days` need before issuance. */
export interface IssuanceHistoryQuery {
  spkiSha256: Buffer
  /** Names of the certificate to come; addresses in canonical text. */
  names: readonly string[]
  /** Certificates that expire after this instant count as not due for renewal. */
  notDueBefore: Date
}

export interface IssuanceHistory {
  /** A certificate of any account, expired or revoked ones included, or one being issued, has this key. */
  keyCertified: boolean
  /**
   * An unrevoked certificate of any account has one of the names and is not due for renewal, or one is being issued.
   */
  notDue: boolean
}

export interface CsrProfileStore {
  /** Keyed by profile id. */
  find: Batched<string, CsrProfileRecord | undefined>
  historyOf: Batched<IssuanceHistoryQuery, IssuanceHistory>
}

const FIND_PROFILES: Statement = {
  name: 'csr-profile-find',
  // csr_profiles_pkey
  text: `
    SELECT id, name, description, profile_data::text AS data, xmin::text AS version
      FROM csr_profiles WHERE id = ANY ($1::uuid[])`,
}

/** Whether a certificate or what is in flight has the key, and whether one has a name and is not due; of a row `i`. */
export const HISTORY_ANSWERS = `
    EXISTS (SELECT FROM certificates c WHERE c.spki_sha256 = i.spki_sha256)
    OR EXISTS (SELECT FROM issuance_intents n WHERE n.spki_sha256 = i.spki_sha256)
    OR EXISTS (SELECT FROM csr_issuances n WHERE n.spki_sha256 = i.spki_sha256) AS key_certified,
    EXISTS (SELECT FROM certificates c
             WHERE c.names && string_to_array(i.names, ' ') AND c.revoked_at IS NULL AND c.not_after > i.not_due_before)
    OR EXISTS (SELECT FROM (SELECT order_id FROM issuance_intents UNION ALL SELECT order_id FROM csr_issuances) n
                 JOIN orders o ON o.id = n.order_id CROSS JOIN jsonb_array_elements(o.identifiers) e
                WHERE e ->> 'value' = ANY (string_to_array(i.names, ' '))) AS not_due`

export const HISTORY: Statement = {
  name: 'csr-profile-history',
  // certificates_spki, certificates_names, orders_pkey; issuance_intents and csr_issuances hold only what is in flight.
  text: `
    SELECT ${HISTORY_ANSWERS}
      FROM unnest($1::bytea[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS i (spki_sha256, names, not_due_before, ord)
     ORDER BY i.ord`,
}

export interface HistoryRow {
  key_certified: boolean
  not_due: boolean
}

export function valuesOfHistory(queries: readonly IssuanceHistoryQuery[]): unknown[] {
  return [queries.map((q) => q.spkiSha256), queries.map((q) => q.names.join(' ')), queries.map((q) => q.notDueBefore)]
}

export function createCsrProfileStore(db: Database): CsrProfileStore {
  return {
    find: batched(db, async (ids: readonly string[]) => {
      const rows = await db.pipeline.run<CsrProfileRecord>(FIND_PROFILES, [ids])
      const byId = new Map(rows.map((row) => [row.id, withoutNulls(row)]))
      return ids.map((id) => byId.get(id))
    }),

    historyOf: batched(db, async (queries: readonly IssuanceHistoryQuery[]) => {
      const rows = await db.pipeline.run<HistoryRow>(HISTORY, valuesOfHistory(queries))
      return rows.map((row) => ({ keyCertified: row.key_certified, notDue: row.not_due }))
    }),
  }
}

/** Daily quotas count days in UTC (`quotas.*`). */
export type UsageKind = 'orders' | 'certificates'

export interface UsageStore {
  /**
   * Counts one for the account, unless its day is full. Returns the day it counted on (`2026-03-01`), else undefined.
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
  text: `DELETE FROM account_usage WHERE day < (slow_now() AT TIME ZONE 'UTC')::date - 1 RETURNING 1`,
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
