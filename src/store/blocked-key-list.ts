/**
 * SQL of the keys blocked by a file (`security.blocked_keys_file`): rows of `blocked_keys` without a certificate. Rows of
 * revocations have one, and rows of administrators say so.
 */

import type { Database, Statement } from './database.ts'

/** Rows of one statement. */
const PAGE = 5000

const LISTED: Statement = {
  name: 'blocked-keys-listed',
  // blocked_keys_pkey
  text: `
    SELECT spki_sha256 AS key, certificate_id IS NULL AND NOT by_administrator AS listed FROM blocked_keys
     WHERE spki_sha256 > $1 ORDER BY spki_sha256 LIMIT ${PAGE}`,
}

const ADD: Statement = {
  name: 'blocked-keys-add',
  text: 'INSERT INTO blocked_keys (spki_sha256) SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING',
}

const REMOVE: Statement = {
  name: 'blocked-keys-remove',
  text: 'DELETE FROM blocked_keys WHERE spki_sha256 = ANY($1::bytea[]) AND certificate_id IS NULL AND NOT by_administrator',
}

const REVOKE_ACCOUNTS: Statement = {
  name: 'blocked-keys-revoke-accounts',
  // blocked_keys_pkey, accounts_spki
  text: `
    WITH page AS MATERIALIZED (
      SELECT spki_sha256 AS key FROM blocked_keys WHERE spki_sha256 > $1 ORDER BY spki_sha256 LIMIT ${PAGE}
    )
    SELECT revoke_accounts_with(ARRAY(SELECT key FROM page))::integer AS accounts,
           (SELECT key FROM page ORDER BY key DESC LIMIT 1) AS last`,
}

/**
 * Revokes accounts whose keys were blocked before migration 0029, or while the account was just being made. It works in
 * pages: a million keys took 13 s, and `server.timeout` may be less.
 * @returns how many
 */
export async function revokeAccountsOfBlockedKeys(db: Pick<Database, 'query'>): Promise<number> {
  let revoked = 0
  for (let after: Buffer | null = Buffer.alloc(0); after !== null; ) {
    const [row]: { accounts: number; last: Buffer | null }[] = await db.query(REVOKE_ACCOUNTS, [after])
    revoked += row?.accounts ?? 0
    after = row?.last ?? null
  }
  return revoked
}

/**
 * Replaces the listed keys by the keys of the file; an unchanged key costs one look-up. Keys of revocations stay.
 * @param hashes SHA-256 of SubjectPublicKeyInfos, lower-case hexadecimal; emptied
 */
export async function replaceListedKeys(
  db: Database,
  hashes: Set<string>,
): Promise<{ added: number; removed: number }> {
  let removed = 0
  let after: Buffer = Buffer.alloc(0)
  for (;;) {
    const rows = await db.query<{ key: Buffer; listed: boolean }>(LISTED, [after])
    const gone = rows.filter(({ key, listed }) => !hashes.delete(key.toString('hex')) && listed)
    if (gone.length > 0) await db.query(REMOVE, [gone.map(({ key }) => key)])
    removed += gone.length
    if (rows.length < PAGE) break
    after = rows.at(-1)!.key
  }
  let page: Buffer[] = []
  const added = hashes.size
  for (const hash of hashes) {
    page.push(Buffer.from(hash, 'hex'))
    if (page.length < PAGE) continue
    await db.query(ADD, [page])
    page = []
  }
  if (page.length > 0) await db.query(ADD, [page])
  return { added, removed }
}
