/**
 * SQL of registration with a binding credential (RFC 8555 §7.3.4). Administrators' statements are
 * in src/admin/eab/credential-store.ts.
 */

import type { Batched } from '../shared/lib/batcher.ts'
import type { ExternalAccountBinding } from '../shared/protocol/external-account-binding.ts'
import type { NewAccount } from './account-store.ts'
import { withoutNulls } from './batch-results.ts'
import { batched, type Database, type Statement } from './database.ts'

/** Facts that the check of a binding needs. */
export interface EabVerification {
  id: string
  kid: string
  sealedKey: Buffer
  used: boolean
  revoked: boolean
  expiresAt: Date | undefined
  /** Accounts that may still register with it; undefined leaves it to `acme.eab_reusable`. */
  usesLeft: number | undefined
  /** In CIDR notation; undefined for any. */
  allowedNetworks: readonly string[] | undefined
}

interface BoundAccount {
  account: NewAccount
  credentialId: string
  binding: ExternalAccountBinding['jws']
  /** `acme.eab_reusable`: a used credential may be used again. */
  reusable: boolean
}

export interface EabStore {
  /** Keyed by kid. */
  findForVerification: Batched<string, EabVerification | undefined>
  /**
   * Makes the account, marks the credential used, and copies its grants to the account, in one commit. False, with
   * nothing written, when the credential is used up or revoked, or the key has an account.
   */
  register: Batched<BoundAccount, boolean>
}

/**
 * Registrations at once, each on a connection, and one at most for a credential. Ten of one
 * credential took all connections of a thread, and every other request was refused.
 */
const MAX_REGISTRATIONS = 2

const FIND_FOR_VERIFICATION: Statement = {
  name: 'eab-find-for-verification',
  // eab_credentials_kid_key, one row each
  text: `
    SELECT id, kid, hmac_key AS "sealedKey", used, revoked, expires_at AS "expiresAt", max_uses - uses AS "usesLeft",
           allowed_networks::text[] AS "allowedNetworks"
      FROM eab_credentials WHERE kid = ANY ($1::text[])`,
}

const REGISTER: Statement = {
  name: 'eab-register',
  // The row lock makes a second registration with the credential wait, and then find it used. The
  // account comes before the mark, so that a key with an account does not use up the credential.
  text: `
    WITH credential AS (
      SELECT id, profiles, preapproved_networks, tags FROM eab_credentials
       WHERE id = $6 AND NOT revoked AND coalesce(uses < max_uses, $8 OR NOT used) AND coalesce(expires_at > now(), true)
         FOR UPDATE
    ), made AS (
      INSERT INTO accounts (id, thumbprint, jwk, contacts, terms_agreed, terms_version, eab_credential_id,
                            external_account_binding, allowed_profiles, preapproved_networks, tags)
      SELECT $1, $2, $3, $4, $5, $9, id, $7, profiles, preapproved_networks, tags FROM credential
      ON CONFLICT (thumbprint) DO NOTHING
      RETURNING id, eab_credential_id
    ), used AS (
      UPDATE eab_credentials c SET used = true, uses = c.uses + 1, used_at = coalesce(c.used_at, now()), account_id = made.id
        FROM made WHERE c.id = made.eab_credential_id
    )
    SELECT id FROM made`,
}

const HAND_ON: Statement = {
  name: 'eab-hand-on',
  // FOR KEY SHARE waits for a deletion under way, and then leaves out the deleted rows.
  text: `
    WITH allowed AS (
      INSERT INTO account_allowed_identifiers (account_id, identifier_id, eab_credential_id)
      SELECT $1, n.id, $2 FROM eab_allowed_identifiers e JOIN allowed_identifiers n ON n.id = e.identifier_id
       WHERE e.eab_credential_id = $2 FOR KEY SHARE OF n
    )
    INSERT INTO account_csr_profiles (account_id, csr_profile_id, eab_credential_id, assigned_by)
    SELECT $1, p.id, $2, e.assigned_by FROM eab_csr_profiles e JOIN csr_profiles p ON p.id = e.csr_profile_id
     WHERE e.eab_credential_id = $2 FOR KEY SHARE OF p`,
}

export function createEabStore(db: Database): EabStore {
  return {
    findForVerification: batched(db, async (kids: readonly string[]) => {
      const rows = await db.pipeline.run<EabVerification>(FIND_FOR_VERIFICATION, [kids])
      const byKid = new Map(rows.map((row) => [row.kid, withoutNulls(row)]))
      return kids.map((kid) => byKid.get(kid))
    }),

    register: batched(
      db,
      async ([bound]: readonly BoundAccount[]) => (bound === undefined ? [] : [await register(db, bound)]),
      {
        keyOf: ({ credentialId }) => credentialId,
        weight: { of: () => 1, most: 1 },
        maxConcurrent: MAX_REGISTRATIONS,
      },
    ),
  }
}

async function register(db: Pick<Database, 'transaction'>, bound: BoundAccount): Promise<boolean> {
  const { account, credentialId, binding, reusable } = bound
  const { id, thumbprint, jwk, contacts, termsAgreed, termsVersion = null } = account
  const values = [id, thumbprint, jwk, contacts, termsAgreed, credentialId, binding, reusable, termsVersion]
  return db.transaction(async (tx) => {
    const made = await tx.query(REGISTER, values)
    // A separate statement, so that it sees grants made while the first one waited for the row.
    if (made.length > 0) await tx.query(HAND_ON, [id, credentialId])
    return made.length > 0
  })
}
