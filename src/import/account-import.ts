/** SQL of accounts that come from another server. */

import type { AccountStatus } from '../domain/states.ts'
import type { Database, Statement } from '../store/database.ts'

type Queries = Pick<Database, 'query'>

export interface KnownImport {
  id: string
  thumbprint: string
  status: AccountStatus
  contacts: readonly string[]
  /** It was changed here: what the former server says counts no more. */
  isChangedHere: boolean
  /** Its paths at former servers. */
  paths: readonly string[]
}

const FIND_KNOWN: Statement = {
  name: 'import-find-accounts',
  // accounts_thumbprint_key, account_paths_pkey, accounts_pkey
  text: `
    SELECT a.id, a.thumbprint, a.status, a.contacts, a.updated_at IS NOT NULL AS "isChangedHere",
           ARRAY(SELECT p.path FROM account_paths p WHERE p.account_id = a.id) AS paths
      FROM accounts a
     WHERE a.id IN (SELECT id FROM accounts WHERE thumbprint = ANY ($1::text[])
                    UNION SELECT account_id FROM account_paths WHERE path = ANY ($2::text[]))`,
}

export function findKnownAccounts(tx: Queries, thumbprints: readonly string[], paths: readonly string[]) {
  return tx.query<KnownImport>(FIND_KNOWN, [thumbprints, paths])
}

export interface NewImport {
  id: string
  thumbprint: string
  jwk: string
  status: AccountStatus
  contacts: readonly string[]
  termsAgreed: boolean
  createdAt: Date
  credentialKid: string | undefined
}

const INSERT: Statement = {
  name: 'import-insert-accounts',
  text: `
    WITH made AS (
      INSERT INTO accounts (id, thumbprint, jwk, status, contacts, terms_agreed, created_at, eab_credential_id)
      SELECT i.id, i.thumbprint, i.jwk, i.status, ARRAY(SELECT jsonb_array_elements_text(i.contacts)), i.terms_agreed, i.created_at, c.id
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::boolean[], $7::timestamptz[], $8::text[])
               AS i (id, thumbprint, jwk, status, contacts, terms_agreed, created_at, kid)
        LEFT JOIN eab_credentials c ON c.kid = i.kid
       ORDER BY i.thumbprint
      ON CONFLICT (thumbprint) DO NOTHING
      RETURNING id, eab_credential_id
    ), used AS (
      UPDATE eab_credentials c SET used = true, uses = c.uses + m.accounts, used_at = coalesce(c.used_at, now()), account_id = m.last
        FROM (SELECT eab_credential_id, count(*)::integer AS accounts, max(id::text)::uuid AS last FROM made
               WHERE eab_credential_id IS NOT NULL GROUP BY eab_credential_id) m
       WHERE c.id = m.eab_credential_id
    )
    SELECT id FROM made`,
}

const HAND_ON_IDENTIFIERS: Statement = {
  name: 'import-hand-on-identifiers',
  text: `
    INSERT INTO account_allowed_identifiers (account_id, identifier_id, eab_credential_id)
    SELECT a.id, e.identifier_id, e.eab_credential_id FROM accounts a JOIN eab_allowed_identifiers e USING (eab_credential_id)
     WHERE a.id = ANY ($1::uuid[]) ON CONFLICT DO NOTHING`,
}

const HAND_ON_PROFILES: Statement = {
  name: 'import-hand-on-profiles',
  text: `
    INSERT INTO account_csr_profiles (account_id, csr_profile_id, eab_credential_id, assigned_by)
    SELECT a.id, e.csr_profile_id, e.eab_credential_id, e.assigned_by FROM accounts a JOIN eab_csr_profiles e USING (eab_credential_id)
     WHERE a.id = ANY ($1::uuid[]) ON CONFLICT DO NOTHING`,
}

/** Gives accounts what their credentials grant. */
export async function handOn(tx: Queries, accountIds: readonly string[]): Promise<void> {
  await tx.query(HAND_ON_IDENTIFIERS, [accountIds])
  await tx.query(HAND_ON_PROFILES, [accountIds])
}

/** Inserts them with what their credentials grant. @returns the ids of those that are in; the keys of the others have accounts */
export async function insertAccounts(tx: Queries, accounts: readonly NewImport[]): Promise<Set<string>> {
  const rows = await tx.query<{ id: string }>(INSERT, [
    accounts.map((a) => a.id),
    accounts.map((a) => a.thumbprint),
    accounts.map((a) => a.jwk),
    accounts.map((a) => a.status),
    accounts.map((a) => JSON.stringify(a.contacts)),
    accounts.map((a) => a.termsAgreed),
    accounts.map((a) => a.createdAt),
    accounts.map((a) => a.credentialKid ?? null),
  ])
  const made = rows.map(({ id }) => id)
  await handOn(tx, made)
  return new Set(made)
}

const FOLLOW: Statement = {
  name: 'import-follow-account',
  text: `
    UPDATE accounts SET status = $2, contacts = $3, jwk = $4, thumbprint = $5,
           key_version = key_version + CASE WHEN thumbprint = $5 THEN 0 ELSE 1 END
     WHERE id = $1 AND updated_at IS NULL RETURNING id`,
}

/** What the former server has changed since the account came here. @returns false when it was changed here, too */
export async function followAccount(
  tx: Queries,
  id: string,
  now: Pick<NewImport, 'status' | 'contacts' | 'jwk' | 'thumbprint'>,
): Promise<boolean> {
  return (await tx.query(FOLLOW, [id, now.status, now.contacts, now.jwk, now.thumbprint])).length > 0
}

const INSERT_PATHS: Statement = {
  name: 'import-insert-paths',
  text: `
    INSERT INTO account_paths (path, account_id) SELECT * FROM unnest($1::text[], $2::uuid[])
    ON CONFLICT (path) DO NOTHING RETURNING path`,
}

export async function insertPaths(tx: Queries, paths: readonly { path: string; accountId: string }[]): Promise<void> {
  await tx.query(INSERT_PATHS, [paths.map(({ path }) => path), paths.map(({ accountId }) => accountId)])
}

const ACCOUNT_IDS: Statement = {
  name: 'import-account-ids',
  text: 'SELECT id, thumbprint FROM accounts WHERE thumbprint = ANY ($1::text[])',
}

export async function accountIdsOf(tx: Queries, thumbprints: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const rows = await tx.query<{ id: string; thumbprint: string }>(ACCOUNT_IDS, [thumbprints])
  return new Map(rows.map(({ id, thumbprint }) => [thumbprint, id]))
}
