/** SQL of keys whose holders have proved the compromise, and of the certificates that have them. */

import { KEY_COMPROMISE } from '../domain/revocation.ts'
import { revokeCertificates } from './certificate-store.ts'
import type { Database, Statement } from './database.ts'

export interface KeyWindow {
  /** Ids of certificates that were revoked, or are so for keyCompromise now. */
  revoked: string[]
  /** Undefined when nothing is behind it. */
  end: string | undefined
}

export interface CompromisedKeyStore {
  /** Keys whose certificates are still to be revoked. One that is just being certified waits. */
  due(): Promise<Buffer[]>
  /** Revokes what of the window behind this id has one of the keys. */
  revokeWindow(keys: readonly Buffer[], afterId: string): Promise<KeyWindow>
  spread(keys: readonly Buffer[]): Promise<void>
}

const DUE: Statement = {
  name: 'compromised-keys-due',
  // blocked_keys_to_spread; issuance_intents, which is short
  text: `
    SELECT spki_sha256 AS key FROM blocked_keys b
     WHERE proved_at IS NOT NULL AND spread_at IS NULL
       AND NOT EXISTS (SELECT FROM issuance_intents n WHERE n.spki_sha256 = b.spki_sha256)`,
}

/** About 20 ms where nothing fits. */
const WINDOW_ROWS = 10_000

const FIND: Statement = {
  name: 'compromised-keys-find',
  // certificates_pkey
  text: `
    WITH place AS MATERIALIZED (SELECT id FROM certificates WHERE id > $1 ORDER BY id OFFSET ${WINDOW_ROWS - 1} LIMIT 1)
    SELECT c.id, c.spki_sha256 AS key, (SELECT id FROM place) AS "end"
      FROM (SELECT) one LEFT JOIN certificates c
        ON c.id > $1 AND c.id <= coalesce((SELECT id FROM place), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND c.spki_sha256 = ANY ($2::bytea[]) AND c.not_after > now()
       AND (c.revoked_at IS NULL OR c.revocation_reason IS DISTINCT FROM ${KEY_COMPROMISE})`,
}

const SPREAD: Statement = {
  name: 'compromised-keys-spread',
  text: 'UPDATE blocked_keys SET spread_at = now() WHERE spki_sha256 = ANY ($1::bytea[])',
}

export function createCompromisedKeyStore(db: Pick<Database, 'query'>): CompromisedKeyStore {
  return {
    due: async () => (await db.query<{ key: Buffer }>(DUE, [])).map(({ key }) => key),
    async revokeWindow(keys, afterId) {
      const rows = await db.query<{ id: string | null; key: Buffer; end: string | null }>(FIND, [afterId, keys])
      const found = rows.flatMap(({ id, key }) => (id === null ? [] : [{ certificateId: id, blockedKey: key }]))
      const revoked = found.length > 0 ? await revokeCertificates(db, found, KEY_COMPROMISE) : []
      return { revoked, end: rows[0]?.end ?? undefined }
    },
    async spread(keys) {
      await db.query(SPREAD, [keys])
    },
  }
}
