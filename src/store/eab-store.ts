/**
 * SQL of the credentials of external account binding (RFC 8555 §7.3.4).
 *
 * The credential's row is the lock for all that depends on it. Registration, revocation and changes
 * to its grants lock it before they read accounts.
 */

import type { Batched } from '../shared/lib/batcher.ts'
import type { ExternalAccountBinding } from '../shared/protocol/external-account-binding.ts'
import type { NewAccount } from './account-store.ts'
import { batched, type Database, type Statement } from './database.ts'
import { account, authorization, order } from './status-sql.ts'

/** Without its key. */
export interface EabCredential {
  id: string
  kid: string
  label: string | undefined
  createdBy: string | undefined
  /** The account registered with it last. */
  accountId: string | undefined
  used: boolean
  usedAt: Date | undefined
  revoked: boolean
  createdAt: Date
  /** CA profiles its accounts may order; undefined for all. */
  profiles: readonly string[] | undefined
  /** In CIDR notation; undefined for none. */
  preapprovedNetworks: readonly string[] | undefined
}

/** Facts that the check of a binding needs. */
export interface EabVerification {
  id: string
  sealedKey: Buffer
  used: boolean
  revoked: boolean
}

export interface NewEabCredential {
  id: string
  kid: string
  label: string | undefined
  sealedKey: Buffer
  createdBy: string | undefined
  profiles?: readonly string[] | undefined
  preapprovedNetworks?: readonly string[] | undefined
}

export interface BoundAccount {
  account: NewAccount
  credentialId: string
  binding: ExternalAccountBinding['jws']
  /** `acme.eab_reusable`: a used credential may be used again. */
  reusable: boolean
}

export interface EabRevocation {
  credential: EabCredential
  /** Every valid account registered with it, before this call. */
  linkedAccounts: string[]
  /** Accounts that this call revoked. */
  revokedAccounts: string[]
}

export interface EabStore {
  /** Keyed by kid. */
  findForVerification: Batched<string, EabVerification | undefined>
  /**
   * Makes the account, marks the credential used, and copies its grants to the account, in one
   * commit. False, with nothing written, when the credential is used up or revoked, or the key has
   * an account.
   */
  register(bound: BoundAccount): Promise<boolean>
  /** Undefined when the kid is taken. */
  create(credential: NewEabCredential): Promise<EabCredential | undefined>
  findByKid(kid: string): Promise<EabCredential | undefined>
  /**
   * Revokes the credential, its valid accounts and their authorizations; may be repeated. Undefined
   * when there is no such credential.
   */
  revoke(id: string): Promise<EabRevocation | undefined>
}

const COLUMNS = `id, kid, label, created_by, account_id, used, used_at, revoked, created_at, profiles,
           preapproved_networks::text[]`

const FIND_FOR_VERIFICATION: Statement = {
  name: 'eab-find-for-verification',
  // eab_credentials_kid_key, one row each
  text: 'SELECT id, kid, hmac_key, used, revoked FROM eab_credentials WHERE kid = ANY ($1::text[])',
}

/**
 * Locks a credential before its grants change; concurrent registrations have then finished copying
 * them.
 */
export const LOCK_CREDENTIAL: Statement = {
  name: 'eab-lock-credential',
  // eab_credentials_pkey
  text: 'SELECT id FROM eab_credentials WHERE id = $1 FOR UPDATE',
}

const REGISTER: Statement = {
  name: 'eab-register',
  // The row lock makes a second registration with the credential wait, and then find it used. The
  // account comes before the mark, so that a key with an account does not use up the credential.
  text: `
    WITH credential AS (
      SELECT id, profiles, preapproved_networks FROM eab_credentials WHERE id = $6 AND NOT revoked AND ($8 OR NOT used) FOR UPDATE
    ), made AS (
      INSERT INTO accounts (id, thumbprint, jwk, contacts, terms_agreed, terms_version, eab_credential_id,
                            external_account_binding, allowed_profiles, preapproved_networks)
      SELECT $1, $2, $3, $4, $5, $9, id, $7, profiles, preapproved_networks FROM credential
      ON CONFLICT (thumbprint) DO NOTHING
      RETURNING id, eab_credential_id
    ), used AS (
      UPDATE eab_credentials c SET used = true, used_at = coalesce(c.used_at, now()), account_id = made.id
        FROM made WHERE c.id = made.eab_credential_id
    )
    SELECT id FROM made`,
}

const HAND_ON: Statement = {
  name: 'eab-hand-on',
  text: `
    WITH allowed AS (
      INSERT INTO account_allowed_identifiers (account_id, identifier_id, eab_credential_id)
      SELECT $1, identifier_id, eab_credential_id FROM eab_allowed_identifiers WHERE eab_credential_id = $2
    )
    INSERT INTO account_csr_profiles (account_id, csr_profile_id, eab_credential_id, assigned_by)
    SELECT $1, csr_profile_id, eab_credential_id, assigned_by FROM eab_csr_profiles WHERE eab_credential_id = $2`,
}

const CREATE: Statement = {
  name: 'eab-create',
  text: `
    INSERT INTO eab_credentials (id, kid, label, hmac_key, created_by, profiles, preapproved_networks)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (kid) DO NOTHING
    RETURNING ${COLUMNS}`,
}

const FIND_BY_KID: Statement = {
  name: 'eab-find-by-kid',
  text: `SELECT ${COLUMNS} FROM eab_credentials WHERE kid = $1`,
}

const REVOKE: Statement = {
  name: 'eab-revoke',
  text: `UPDATE eab_credentials SET revoked = true WHERE id = $1 RETURNING ${COLUMNS}`,
}

const REVOKE_ACCOUNTS: Statement = {
  name: 'eab-revoke-accounts',
  // accounts_eab_credential; authorizations_reusable for valid authorizations, the open orders for
  // pending ones. A pending pre-authorization keeps its status, because only the account reaches
  // it.
  text: `
    WITH linked AS (
      SELECT id FROM accounts WHERE eab_credential_id = $1 AND status ${account.allows('revoke')} FOR UPDATE
    ), revoked AS (
      UPDATE accounts a SET status = ${account.after('revoke')} FROM linked
       WHERE a.id = linked.id AND a.status ${account.allows('revoke')} RETURNING a.id
    ), concerned AS (
      SELECT z.id FROM authorizations z JOIN revoked ON z.account_id = revoked.id WHERE z.status ${authorization.is('valid')}
      UNION
      SELECT unnest(o.authorization_ids) FROM orders o JOIN revoked ON o.account_id = revoked.id
       WHERE o.status ${order.is('open')}
    ), deactivated AS (
      UPDATE authorizations z SET status = ${authorization.after('deactivate')}, validating_by = NULL, validating_since = NULL
        FROM concerned WHERE z.id = concerned.id AND z.status ${authorization.allows('deactivate')}
    )
    SELECT linked.id, revoked.id IS NOT NULL AS revoked FROM linked LEFT JOIN revoked USING (id) ORDER BY linked.id`,
}

interface CredentialRow {
  id: string
  kid: string
  label: string | null
  created_by: string | null
  account_id: string | null
  used: boolean
  used_at: Date | null
  revoked: boolean
  created_at: Date
  profiles: string[] | null
  preapproved_networks: string[] | null
}

export function createEabStore(db: Database): EabStore {
  return {
    findForVerification: batched(db, async (kids: readonly string[]) => {
      type Row = { id: string; kid: string; hmac_key: Buffer; used: boolean; revoked: boolean }
      const rows = await db.pipeline.run<Row>(FIND_FOR_VERIFICATION, [kids])
      const byKid = new Map(
        rows.map(({ id, kid, hmac_key: sealedKey, used, revoked }) => [kid, { id, sealedKey, used, revoked }]),
      )
      return kids.map((kid) => byKid.get(kid))
    }),

    async register({ account, credentialId, binding, reusable }) {
      const { id, thumbprint, jwk, contacts, termsAgreed, termsVersion = null } = account
      const values = [id, thumbprint, jwk, contacts, termsAgreed, credentialId, binding, reusable, termsVersion]
      return db.transaction(async (tx) => {
        const made = await tx.query(REGISTER, values)
        // A separate statement, so that it sees grants made while the first one waited for the row.
        if (made.length > 0) await tx.query(HAND_ON, [id, credentialId])
        return made.length > 0
      })
    },

    async create({ id, kid, label, sealedKey, createdBy, profiles, preapprovedNetworks }) {
      const facts = [id, kid, label ?? null, sealedKey, createdBy ?? null]
      const rows = await db.query<CredentialRow>(CREATE, [...facts, profiles ?? null, preapprovedNetworks ?? null])
      return rows[0] && decode(rows[0])
    },

    async findByKid(kid) {
      const rows = await db.query<CredentialRow>(FIND_BY_KID, [kid])
      return rows[0] && decode(rows[0])
    },

    revoke: (id) =>
      db.transaction(async (tx) => {
        const [row] = await tx.query<CredentialRow>(REVOKE, [id])
        if (!row) return undefined
        // A separate statement: only one that starts after the lock sees what a registration has
        // just made.
        const linked = await tx.query<{ id: string; revoked: boolean }>(REVOKE_ACCOUNTS, [id])
        return {
          credential: decode(row),
          linkedAccounts: linked.map((account) => account.id),
          revokedAccounts: linked.filter(({ revoked }) => revoked).map((account) => account.id),
        }
      }),
  }
}

function decode(row: CredentialRow): EabCredential {
  return {
    id: row.id,
    kid: row.kid,
    label: row.label ?? undefined,
    createdBy: row.created_by ?? undefined,
    accountId: row.account_id ?? undefined,
    used: row.used,
    usedAt: row.used_at ?? undefined,
    revoked: row.revoked,
    createdAt: row.created_at,
    profiles: row.profiles ?? undefined,
    preapprovedNetworks: row.preapproved_networks ?? undefined,
  }
}
