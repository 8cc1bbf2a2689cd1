/**
 * SQL of CSR profiles at finalize, and of the issuance history that they check. Changes are in
 * admin/profile-store.ts.
 */

import type { Batched } from '../shared/lib/batcher.ts'
import { batched, type Database, type Statement } from './database.ts'

export interface CsrProfileRecord {
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
  /**
   * A certificate of any account, expired or revoked ones included, or one being issued, has this
   * key.
   */
  keyCertified: boolean
  /**
   * An unrevoked certificate of any account has one of the names and is not due for renewal, or one
   * is being issued.
   */
  notDue: boolean
}

export interface CsrProfileStore {
  /** Keyed by profile id. */
  find: Batched<string, CsrProfileRecord | undefined>
  historyOf: Batched<IssuanceHistoryQuery, IssuanceHistory>
}

const COLUMNS = 'p.id, p.name, p.description, p.profile_data::text AS data, p.xmin::text AS version'

const FIND: Statement = {
  name: 'csr-profile-find',
  // csr_profiles_pkey
  text: `SELECT ${COLUMNS} FROM csr_profiles p WHERE p.id = ANY ($1::uuid[])`,
}

/**
 * Whether a certificate or what is in flight has the key, and whether one has a name and is not due;
 * of a row `i`.
 */
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

interface ProfileRow {
  id: string
  name: string
  description: string | null
  data: string
  version: string
}

export function createCsrProfileStore(db: Database): CsrProfileStore {
  return {
    find: batched(db, async (ids: readonly string[]) => {
      const rows = await db.pipeline.run<ProfileRow>(FIND, [ids])
      const byId = new Map(rows.map((row) => [row.id, decode(row)]))
      return ids.map((id) => byId.get(id))
    }),

    historyOf: batched(db, async (queries: readonly IssuanceHistoryQuery[]) => {
      const rows = await db.pipeline.run<HistoryRow>(HISTORY, valuesOfHistory(queries))
      return rows.map((row) => ({ keyCertified: row.key_certified, notDue: row.not_due }))
    }),
  }
}

function decode({ description, ...row }: ProfileRow): CsrProfileRecord {
  return { ...row, description: description ?? undefined }
}
