/** Keys that are never certified again, and those that an administrator blocks or unblocks. */

import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type PageRequest, readPageOf } from '../list-pages.ts'
import { type BlockedKeyRow, blockKey, findBlockedKey, listBlockedKeys, unblockKey } from './blocked-key-store.ts'

export class BlockedKeys {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  list(page: PageRequest) {
    return readPageOf((after, limit) => listBlockedKeys(this.#db, after, limit), page)
  }

  /** @param hash SHA-256 of the SubjectPublicKeyInfo in lower-case hexadecimal */
  block(actor: Actor, hash: string): Promise<BlockedKeyRow> {
    return this.#audit.transaction(actor, async (tx, note) => {
      const blocked = await blockKey(tx, hash)
      if (!blocked) throw new AdminError('conflict', 'the key is blocked already')
      note('key.block', { spki_sha256: hash })
      return blocked
    })
  }

  unblock(actor: Actor, hash: string): Promise<void> {
    return this.#audit.transaction(actor, async (tx, note) => {
      const found = await findBlockedKey(tx, hash)
      if (!found) throw notFound('blocked key')
      if (!found.by_administrator && found.certificate_id === null)
        throw new AdminError('conflict', 'security.blocked_keys_file lists this key; take it out there')
      await unblockKey(tx, hash)
      note('key.unblock', { spki_sha256: hash, certificate_id: found.certificate_id ?? undefined })
    })
  }
}
