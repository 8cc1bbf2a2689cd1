/** API tokens: for machines, which have no password. A token acts for its maker and ends with that user. */

import { randomBytes } from 'node:crypto'
import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Role } from '../../domain/administrator.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type PageOfList, type PageRequest, readPageOf } from '../list-pages.ts'
import { API_TOKEN_PREFIX, hashApiToken, type SignedIn } from './sign-in.ts'
import { type ApiTokenRow, findApiTokenById, insertApiToken, pagesOfApiTokens, revokeApiToken } from './token-store.ts'

const TOKEN_BYTES = 32

export interface WantedApiToken {
  name: string
  role: Role
  /** Undefined for a token without an end. */
  expiresAt: Date | undefined
}

export class ApiTokens {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  /** Revoked ones too, so that a list shows who had access. */
  list(request: PageRequest): Promise<PageOfList<ApiTokenRow>> {
    return readPageOf(pagesOfApiTokens(this.#db), request)
  }

  /** @returns the token, which cannot be read again */
  async create(author: SignedIn, { name, role, expiresAt }: WantedApiToken): Promise<ApiTokenRow & { token: string }> {
    const token = API_TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('base64url')
    return this.#audit.transaction(author, async (tx, note) => {
      const id = uuidv7(Date.now())
      const hash = hashApiToken(token)
      const made = await insertApiToken(tx, { id, name, role, hash, createdBy: author.userId, expiresAt })
      if (!made) throw new AdminError('unauthorized', 'the user of this token was deleted')
      note('token.create', { token_id: id, name, role, ...(expiresAt && { expires_at: expiresAt }) })
      return { ...made, token }
    })
  }

  /** May be repeated. @throws AdminError not_found */
  revoke(author: SignedIn, id: string): Promise<void> {
    return this.#audit.transaction(author, async (tx, note) => {
      const found = await findApiTokenById(tx, id)
      if (!found) throw notFound('API token')
      if (found.revoked_at) return
      await revokeApiToken(tx, id)
      note('token.revoke', { token_id: id, name: found.name }, found.created_by)
    })
  }
}
