/** SQL of blocked keys as administrators see and change them (table blocked_keys). */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import { z } from 'zod/v4'
import { ALL_ROWS, type ListPage, readPage, unbounded } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'

const Key = z.object({
  spki_sha256: z.string(),
  blocked_at: z.date(),
  certificate_id: z.string().nullable(),
  by_administrator: z.boolean(),
})
export type BlockedKeyRow = z.infer<typeof Key>
const columns = sql.fragment`encode(spki_sha256, 'hex') AS spki_sha256, blocked_at, certificate_id, by_administrator`
const bytes = (hash: string) => sql.fragment`decode(${hash}, 'hex')`

/** blocked_keys_time, newest first; the cursor is the hash. */
export function listBlockedKeys(
  db: DatabasePool,
  after: string | undefined,
  limit: number,
): Promise<ListPage<BlockedKeyRow>> {
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
export function blockKey(tx: CommonQueryMethods, hash: string): Promise<BlockedKeyRow | null> {
  return tx.maybeOne(rowsOf(Key)`
    INSERT INTO blocked_keys AS b (spki_sha256, by_administrator) VALUES (${bytes(hash)}, true)
    ON CONFLICT (spki_sha256) DO UPDATE SET by_administrator = true
     WHERE NOT b.by_administrator AND b.certificate_id IS NULL RETURNING ${columns}`)
}

export async function unblockKey(tx: CommonQueryMethods, hash: string): Promise<void> {
  await tx.query(rowsOf(z.object({}))`DELETE FROM blocked_keys WHERE spki_sha256 = ${bytes(hash)}`)
}
