/** SQL of CSR profiles, their assignments, and the issuance history that they check. */

import type { Batched } from '../shared/lib/batcher.ts'
import { batched, type Database, type Statement } from './database.ts'
import { LOCK_CREDENTIAL } from './eab-store.ts'
import { HISTORY_INDEXES, makeIndexes } from './optional-indexes.ts'

export interface CsrProfileRecord {
  id: string
  name: string
  description: string | undefined
  /** JSON text of `profile_data` as the database writes it; equal data has equal text. */
  data: string
}

export interface NewCsrProfile {
  id: string
  name: string
  description: string | undefined
  data: object
  createdBy: string | undefined
}

/** History that profiles with `reuse_key` or `renewal_window_days` need before issuance. */
export interface IssuanceHistoryQuery {
  spkiSha256: Buffer
  dnsNames: readonly string[]
  /** Certificates that expire after this instant count as not due for renewal. */
  notDueBefore: Date
}

export interface IssuanceHistory {
  /**
   * A certificate of any account, expired or revoked ones included, or one being issued, has this
   * key.
   */
  keyCertified: boolean
  /** An unrevoked certificate of any account has one of the names and is not due for renewal. */
  notDue: boolean
}

export interface CsrProfileStore {
  /** Keyed by profile id. */
  find: Batched<string, CsrProfileRecord | undefined>
  historyOf: Batched<IssuanceHistoryQuery, IssuanceHistory>
  /** False when the name is taken. */
  create(profile: NewCsrProfile): Promise<boolean>
  findByName(name: string): Promise<CsrProfileRecord | undefined>
  /** Sorted by name. */
  list(): Promise<(CsrProfileRecord & { accounts: number; credentials: number })[]>
  /** Replaces the account's profile; false when there is no such account. */
  assignToAccount(profileId: string, accountId: string): Promise<boolean>
  /**
   * Assigns it to the credential, and to its accounts that have no profile. False when there is no
   * such credential.
   */
  assignToCredential(profileId: string, credentialId: string): Promise<boolean>
  /**
   * Makes the indexes that only `historyOf` needs; call it before storing a profile that asks for
   * history. Takes minutes on a large table, without blocking writes.
   */
  prepareHistory(): Promise<void>
}

const COLUMNS = 'p.id, p.name, p.description, p.profile_data::text AS data'

const FIND: Statement = {
  name: 'csr-profile-find',
  // csr_profiles_pkey
  text: `SELECT ${COLUMNS} FROM csr_profiles p WHERE p.id = ANY ($1::uuid[])`,
}

const HISTORY: Statement = {
  name: 'csr-profile-history',
  // certificates_spki and certificates_names; issuance_intents holds only what is in flight.
  text: `
    SELECT EXISTS (SELECT FROM certificates c WHERE c.spki_sha256 = i.spki_sha256)
           OR EXISTS (SELECT FROM issuance_intents n WHERE n.spki_sha256 = i.spki_sha256) AS key_certified,
           EXISTS (SELECT FROM certificates c
                    WHERE c.names && string_to_array(i.names, ' ') AND c.revoked_at IS NULL AND c.not_after > i.not_due_before
           ) AS not_due
      FROM unnest($1::bytea[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS i (spki_sha256, names, not_due_before, ord)
     ORDER BY i.ord`,
}

const CREATE: Statement = {
  name: 'csr-profile-create',
  text: `
    INSERT INTO csr_profiles (id, name, description, profile_data, created_by) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (name) DO NOTHING RETURNING id`,
}

const FIND_BY_NAME: Statement = {
  name: 'csr-profile-find-by-name',
  text: `SELECT ${COLUMNS} FROM csr_profiles p WHERE p.name = $1`,
}

const LIST: Statement = {
  name: 'csr-profile-list',
  text: `
    SELECT ${COLUMNS},
           (SELECT count(*)::integer FROM account_csr_profiles a WHERE a.csr_profile_id = p.id) AS accounts,
           (SELECT count(*)::integer FROM eab_csr_profiles e WHERE e.csr_profile_id = p.id) AS credentials
      FROM csr_profiles p ORDER BY p.name`,
}

const ASSIGN_TO_ACCOUNT: Statement = {
  name: 'csr-profile-assign-to-account',
  text: `
    INSERT INTO account_csr_profiles (account_id, csr_profile_id) SELECT id, $1 FROM accounts WHERE id = $2
    ON CONFLICT (account_id) DO UPDATE
       SET csr_profile_id = excluded.csr_profile_id, eab_credential_id = NULL, assigned_by = excluded.assigned_by
    RETURNING account_id`,
}

const ASSIGN_TO_CREDENTIAL: Statement = {
  name: 'csr-profile-assign-to-credential',
  text: `
    WITH credential AS (
      INSERT INTO eab_csr_profiles (eab_credential_id, csr_profile_id) VALUES ($2, $1)
      ON CONFLICT (eab_credential_id) DO UPDATE SET csr_profile_id = excluded.csr_profile_id
    )
    INSERT INTO account_csr_profiles AS a (account_id, csr_profile_id, eab_credential_id)
    SELECT id, $1, $2 FROM accounts WHERE eab_credential_id = $2
    ON CONFLICT (account_id) DO UPDATE SET csr_profile_id = excluded.csr_profile_id
     WHERE a.eab_credential_id IS NOT NULL`,
}

interface ProfileRow {
  id: string
  name: string
  description: string | null
  data: string
}

export function createCsrProfileStore(db: Database): CsrProfileStore {
  return {
    find: batched(db, async (ids: readonly string[]) => {
      const rows = await db.pipeline.run<ProfileRow>(FIND, [ids])
      const byId = new Map(rows.map((row) => [row.id, decode(row)]))
      return ids.map((id) => byId.get(id))
    }),

    historyOf: batched(db, async (queries: readonly IssuanceHistoryQuery[]) => {
      const rows = await db.pipeline.run<{ key_certified: boolean; not_due: boolean }>(HISTORY, [
        queries.map((q) => q.spkiSha256),
        queries.map((q) => q.dnsNames.join(' ')),
        queries.map((q) => q.notDueBefore),
      ])
      return rows.map((row) => ({ keyCertified: row.key_certified, notDue: row.not_due }))
    }),

    async create({ id, name, description, data, createdBy }) {
      return (await db.query(CREATE, [id, name, description ?? null, data, createdBy ?? null])).length > 0
    },

    async findByName(name) {
      const rows = await db.query<ProfileRow>(FIND_BY_NAME, [name])
      return rows[0] && decode(rows[0])
    },

    async list() {
      const rows = await db.query<ProfileRow & { accounts: number; credentials: number }>(LIST, [])
      return rows.map((row) => ({ ...decode(row), accounts: row.accounts, credentials: row.credentials }))
    },

    async assignToAccount(profileId, accountId) {
      return (await db.query(ASSIGN_TO_ACCOUNT, [profileId, accountId])).length > 0
    },

    assignToCredential: (profileId, credentialId) =>
      db.transaction(async (tx) => {
        // Waits for a registration that is copying the credential's profile (eab-store.ts).
        const locked = await tx.query(LOCK_CREDENTIAL, [credentialId])
        if (locked.length === 0) return false
        await tx.query(ASSIGN_TO_CREDENTIAL, [profileId, credentialId])
        return true
      }),

    prepareHistory: () => makeIndexes(db, HISTORY_INDEXES),
  }
}

function decode({ id, name, description, data }: ProfileRow): CsrProfileRecord {
  return { id, name, description: description ?? undefined, data }
}
