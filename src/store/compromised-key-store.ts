/** SQL of keys whose holders have proved the compromise, and of the certificates that have them. */

import { KEY_COMPROMISE } from '../domain/revocation.ts'
import { revokeCertificates } from './certificate-store.ts'
import type { Database, Statement } from './database.ts'

interface KeyWindow {
  /** Ids of certificates that were revoked, or are so for keyCompromise now. */
  revoked: string[]
  /** Undefined when nothing is behind it. */
  end: string | undefined
}

export interface DueKey {
  key: Buffer
  /** Changes when a certificate with the key comes, which a walk that is under way may have passed. */
  version: string
  /** What was begun before the proof is committed by now, or never: the walk is the last. */
  isSettled: boolean
}

export interface CompromisedKeyStore {
  /** Keys whose certificates are still to be revoked. One that is just being certified waits. */
  due(): Promise<DueKey[]>
  /** Revokes what of the window behind this id has one of the keys, unless its block was taken back. */
  revokeWindow(keys: readonly Buffer[], afterId: string): Promise<KeyWindow>
  /** Of these, what has changed since stays due. */
  spread(keys: readonly DueKey[]): Promise<void>
}

const DUE: Statement = {
  name: 'compromised-keys-due',
  // blocked_keys_to_spread; issuance_intents, which is short. Transactions of an import take seconds.
  text: `
    SELECT spki_sha256 AS key, xmin::text AS version, abs(extract(epoch FROM now() - proved_at)) > 60 AS "isSettled" FROM blocked_keys b
     WHERE proved_at IS NOT NULL AND spread_at IS NULL
       AND NOT EXISTS (SELECT FROM issuance_intents n WHERE n.spki_sha256 = b.spki_sha256)`,
}

/** About 20 ms where nothing fits. */
const WINDOW_ROWS = 10_000
/** A page of a bulk revocation has as many: 10,000 in one statement took 7 s, and `server.timeout` may be less. */
const MOST_REVOKED = 500

const FIND: Statement = {
  name: 'compromised-keys-find',
  // certificates_pkey, blocked_keys_pkey
  text: `
    WITH place AS MATERIALIZED (SELECT id FROM certificates WHERE id > $1 ORDER BY id OFFSET ${WINDOW_ROWS - 1} LIMIT 1)
    SELECT c.id, c.spki_sha256 AS key, (SELECT id FROM place) AS "end"
      FROM (SELECT) one LEFT JOIN certificates c
        ON c.id > $1 AND c.id <= coalesce((SELECT id FROM place), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND c.spki_sha256 = ANY (ARRAY(SELECT b.spki_sha256 FROM blocked_keys b WHERE b.spki_sha256 = ANY ($2::bytea[])))
       AND c.not_after > (SELECT slow_now()) AND (c.revoked_at IS NULL OR c.revocation_reason IS DISTINCT FROM ${KEY_COMPROMISE})
     ORDER BY c.id LIMIT ${MOST_REVOKED}`,
}

const SPREAD: Statement = {
  name: 'compromised-keys-spread',
  text: `
    UPDATE blocked_keys b SET spread_at = now() FROM unnest($1::bytea[], $2::text[]) AS i (key, version)
     WHERE b.spki_sha256 = i.key AND b.xmin::text = i.version`,
}

export function createCompromisedKeyStore(db: Pick<Database, 'query'>): CompromisedKeyStore {
  return {
    due: () => db.query<DueKey>(DUE, []),
    async revokeWindow(keys, afterId) {
      const rows = await db.query<{ id: string | null; key: Buffer; end: string | null }>(FIND, [afterId, keys])
      const found = rows.flatMap(({ id, key }) => (id === null ? [] : [{ certificateId: id, blockedKey: key }]))
      const revoked = found.length > 0 ? await revokeCertificates(db, found, KEY_COMPROMISE) : []
      const isCut = rows.length === MOST_REVOKED
      return { revoked, end: (isCut ? found.at(-1)?.certificateId : rows[0]?.end) ?? undefined }
    },
    async spread(keys) {
      await db.query(SPREAD, [keys.map(({ key }) => key), keys.map(({ version }) => version)])
    },
  }
}

const BLOCK: Statement = {
  name: 'compromised-key-block',
  // Without a certificate it is a key of a file, unless an administrator has blocked it.
  text: `
    INSERT INTO blocked_keys AS b (spki_sha256, by_administrator, proved_at) VALUES (decode($1, 'hex'), true, now())
    ON CONFLICT (spki_sha256) DO UPDATE SET proved_at = now(), by_administrator = b.by_administrator OR b.certificate_id IS NULL
     WHERE b.proved_at IS NULL RETURNING spki_sha256`,
}

/**
 * Blocks a key again whose proof was lost; its certificates are walked through as after the proof.
 * @param hash SHA-256 of the SubjectPublicKeyInfo in lower-case hexadecimal @returns false where the proof is known
 */
export async function blockProvedKey(db: Pick<Database, 'query'>, hash: string): Promise<boolean> {
  return (await db.query(BLOCK, [hash])).length > 0
}
