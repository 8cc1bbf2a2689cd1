/** SQL of binding credentials that come from another server. */

import type { Database, Statement } from '../store/database.ts'
import { handOn } from './account-import.ts'

type Queries = Pick<Database, 'query'>

export interface KnownCredential {
  id: string
  kid: string
  sealedKey: Buffer
  revoked: boolean
}

const FIND_CREDENTIALS: Statement = {
  name: 'import-find-credentials',
  text: 'SELECT id, kid, hmac_key AS "sealedKey", revoked FROM eab_credentials WHERE kid = ANY ($1::text[])',
}

export const findCredentials = (tx: Queries, kids: readonly string[]) =>
  tx.query<KnownCredential>(FIND_CREDENTIALS, [kids])

interface NewCredentialImport {
  id: string
  kid: string
  label: string | undefined
  sealedKey: Buffer
  createdAt: Date
  used: boolean
  revoked: boolean
}

const INSERT_CREDENTIALS: Statement = {
  name: 'import-insert-credentials',
  text: `
    INSERT INTO eab_credentials (id, kid, label, hmac_key, created_at, used, revoked)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::boolean[], $7::boolean[])`,
}

export async function insertCredentials(tx: Queries, credentials: readonly NewCredentialImport[]): Promise<void> {
  await tx.query(INSERT_CREDENTIALS, [
    credentials.map((one) => one.id),
    credentials.map((one) => one.kid),
    credentials.map((one) => one.label ?? null),
    credentials.map((one) => one.sealedKey),
    credentials.map((one) => one.createdAt),
    credentials.map((one) => one.used),
    credentials.map((one) => one.revoked),
  ])
}

const REVOKE_CREDENTIALS: Statement = {
  name: 'import-revoke-credentials',
  text: 'UPDATE eab_credentials SET revoked = true WHERE id = ANY ($1::uuid[])',
}

/** Their accounts follow the former server by themselves. */
export async function closeCredentials(tx: Queries, ids: readonly string[]): Promise<void> {
  await tx.query(REVOKE_CREDENTIALS, [ids])
}

const LINK: Statement = {
  name: 'import-link-accounts',
  text: `
    WITH linked AS (
      UPDATE accounts a SET eab_credential_id = c.id
        FROM unnest($1::text[], $2::text[]) AS i (kid, thumbprint) JOIN eab_credentials c ON c.kid = i.kid
       WHERE a.thumbprint = i.thumbprint AND a.eab_credential_id IS NULL
      RETURNING a.id, c.id AS credential_id
    ), used AS (
      UPDATE eab_credentials c SET uses = c.uses + 1, used = true, used_at = coalesce(c.used_at, now()), account_id = l.id
        FROM linked l WHERE c.id = l.credential_id
    )
    SELECT id FROM linked`,
}

/** Binds accounts to the credentials that name them. */
export async function linkAccounts(
  tx: Queries,
  bindings: readonly { kid: string; thumbprint: string }[],
): Promise<number> {
  const rows = await tx.query<{ id: string }>(LINK, [
    bindings.map(({ kid }) => kid),
    bindings.map(({ thumbprint }) => thumbprint),
  ])
  await handOn(
    tx,
    rows.map(({ id }) => id),
  )
  return rows.length
}
