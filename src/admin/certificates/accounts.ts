/** ACME accounts as administrators see them, and their deactivation. */

import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import {
  type AccountFilter,
  type FoundAccount,
  findAccount,
  listAccounts,
  skipOfAccounts,
} from '../../store/account-list.ts'
import { deactivateAccount } from '../../store/account-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type PageRequest, readPageOf } from '../list-pages.ts'

export class Accounts {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  list(filter: AccountFilter, page: PageRequest) {
    const skip = skipOfAccounts(this.#db, filter)
    return readPageOf((after, limit) => listAccounts(this.#db, filter, after, limit), page, skip)
  }

  async find(id: string): Promise<FoundAccount> {
    return (await findAccount(this.#db, id)) ?? Promise.reject(notFound('account'))
  }

  /** As if its owner had asked (RFC 8555 §7.3.6); an account deactivated already stays as it is. */
  deactivate(actor: Actor, id: string): Promise<FoundAccount> {
    return this.#audit.transaction(actor, async (tx, note) => {
      const account = await findAccount(tx, id)
      if (!account) throw notFound('account')
      if (await deactivateAccount(queriesOf(tx), id)) note('account.deactivate', { account_id: id })
      else if (account.status === 'revoked') throw new AdminError('conflict', 'the account is revoked')
      return (await findAccount(tx, id)) as FoundAccount
    })
  }
}
