/** `/blocked-keys`: keys that are never certified again, and have no account. */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { ALL_ROWS, type ListPage, readPage, unbounded } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { placeParameters, readAtPlace } from '../pages.ts'
import { fingerprint, timestamp, withTimes } from '../schemas.ts'

const BlockedKey = z
  .strictObject({
    spki_sha256: z.string().meta({ description: 'SHA-256 of the SubjectPublicKeyInfo.' }),
    source: z.enum(['revocation', 'administrator', 'file']),
    certificate_id: z.uuid().nullable().meta({ description: 'Whose revocation blocked it.' }),
    blocked_at: timestamp(),
  })
  .meta({ id: 'BlockedKey' })

const Key = z.object({
  spki_sha256: z.string(),
  blocked_at: z.date(),
  certificate_id: z.string().nullable(),
  by_administrator: z.boolean(),
})
type BlockedKeyRow = z.infer<typeof Key>

function keyBody({ by_administrator, ...key }: BlockedKeyRow) {
  const source = key.certificate_id ? 'revocation' : by_administrator ? 'administrator' : 'file'
  return { ...withTimes(key), source } as const
}

export const BLOCKED_KEYS = endpointGroup('Blocked keys', {
  listBlockedKeys: endpoint({
    route: 'GET /blocked-keys',
    permission: 'read',
    query: z.strictObject(placeParameters(fingerprint())),
    reply: { status: 200, schema: z.array(BlockedKey) },
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readAtPlace(query, pages, (after, limit) => listBlockedKeys(db, after, limit))
      return { body: rows.map(keyBody), next }
    },
  }),
  blockKey: endpoint({
    route: 'POST /blocked-keys',
    permission: 'operate',
    body: z.strictObject({ spki_sha256: fingerprint() }),
    reply: { status: 201, schema: BlockedKey },
    errors: ['conflict'],
    audit: 'key.block',
    handle: async ({ body, author }, { audit }) => ({
      body: keyBody(await block(audit, author, body.spki_sha256)),
    }),
  }),
  unblockKey: endpoint({
    route: 'DELETE /blocked-keys/{spki_sha256}',
    permission: 'operate',
    params: z.strictObject({ spki_sha256: fingerprint() }),
    reply: { status: 204 },
    errors: ['conflict'],
    audit: 'key.unblock',
    handle: ({ params, author }, { audit }) => withoutBody(unblock(audit, author, params.spki_sha256)),
  }),
})

/** @param hash SHA-256 of the SubjectPublicKeyInfo in lower-case hexadecimal */
function block(audit: AuditLog, actor: Actor, hash: string): Promise<BlockedKeyRow> {
  return audit.transaction(actor, async (tx, note) => {
    const blocked = await insertBlock(tx, hash)
    if (!blocked) throw new AdminError('conflict', 'the key is blocked already')
    note('key.block', { spki_sha256: hash })
    return blocked
  })
}

function unblock(audit: AuditLog, actor: Actor, hash: string): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    const found = requireFound(await findBlockedKey(tx, hash), 'blocked key')
    if (!found.by_administrator && found.certificate_id === null)
      throw new AdminError('conflict', 'security.blocked_keys_file lists this key; take it out there')
    await deleteBlock(tx, hash)
    note('key.unblock', { spki_sha256: hash, certificate_id: found.certificate_id ?? undefined })
  })
}

const columns = sql.fragment`encode(spki_sha256, 'hex') AS spki_sha256, blocked_at, certificate_id, by_administrator`
const bytes = (hash: string) => sql.fragment`decode(${hash}, 'hex')`

/** blocked_keys_time, newest first; the cursor is the hash. */
function listBlockedKeys(db: DatabasePool, after: string | undefined, limit: number): Promise<ListPage<BlockedKeyRow>> {
  const behind = (hash: string) => sql.fragment`
    (blocked_at, spki_sha256) < ((SELECT blocked_at FROM blocked_keys WHERE spki_sha256 = ${bytes(hash)}), ${bytes(hash)})`
  const walk = unbounded<BlockedKeyRow>({
    cursorOf: (row) => row.spki_sha256,
    windowEnd: async () => undefined,
    async read(from, _end, count) {
      return [
        ...(await db.any(rowsOf(Key)`
          SELECT ${columns} FROM blocked_keys WHERE ${from === undefined ? ALL_ROWS : behind(from)}
           ORDER BY blocked_at DESC, blocked_keys.spki_sha256 DESC LIMIT ${count}`)),
      ]
    },
  })
  return readPage(walk, after, limit)
}

export function findBlockedKey(db: CommonQueryMethods, hash: string): Promise<BlockedKeyRow | null> {
  return db.maybeOne(rowsOf(Key)`SELECT ${columns} FROM blocked_keys WHERE spki_sha256 = ${bytes(hash)}`)
}

/** Null when it is blocked by more than a file. */
export function insertBlock(tx: CommonQueryMethods, hash: string): Promise<BlockedKeyRow | null> {
  return tx.maybeOne(rowsOf(Key)`
    INSERT INTO blocked_keys AS b (spki_sha256, by_administrator) VALUES (${bytes(hash)}, true)
    ON CONFLICT (spki_sha256) DO UPDATE SET by_administrator = true
     WHERE NOT b.by_administrator AND b.certificate_id IS NULL RETURNING ${columns}`)
}

async function deleteBlock(tx: CommonQueryMethods, hash: string): Promise<void> {
  await tx.query(rowsOf(z.object({}))`DELETE FROM blocked_keys WHERE spki_sha256 = ${bytes(hash)}`)
}
