/** The terms of service: which version counts, who has agreed, and agreements given outside the protocol. */

import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { agreePageToTerms, agreeToTerms, countAgreements } from '../../store/account-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'

/** Of the configuration. */
export interface TermsSettings {
  url: string | null
  version: string | null
  require_agreement: boolean
}

export class Terms {
  readonly settings: TermsSettings
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog, settings: TermsSettings) {
    this.#db = db
    this.#audit = audit
    this.settings = settings
  }

  /** Of valid accounts; without versions, any agreement counts. Reads all accounts. */
  count(): Promise<{ accounts: number; agreed: number }> {
    return countAgreements(queriesOf(this.#db), this.settings.version)
  }

  /** @throws AdminError not_found for an account that is not valid; conflict where there are no versions */
  async accept(actor: Actor, accountId: string): Promise<{ accounts: number; version: string }> {
    return this.#audit.transaction(actor, async (tx, note) => {
      const version = this.#version()
      if (!(await agreeToTerms(queriesOf(tx), accountId, version))) throw notFound('valid account')
      note('terms.accept', { account_id: accountId, version })
      return { accounts: 1, version }
    })
  }

  /** For every valid account that lacks this version, a page and its entry at a time. */
  async acceptForAll(actor: Actor): Promise<{ accounts: number; version: string }> {
    let accounts = 0
    let after: string | undefined
    do {
      const from: string | undefined = after
      const page = await this.#audit.transaction(actor, async (tx, note) => {
        const version = this.#version()
        const page = await agreePageToTerms(queriesOf(tx), version, from)
        if (page.agreed > 0) note('terms.accept', { accounts: page.agreed, version })
        return page
      })
      accounts += page.agreed
      after = page.last
    } while (after !== undefined)
    return { accounts, version: this.#version() }
  }

  #version(): string {
    const { version } = this.settings
    if (version !== null) return version
    throw new AdminError('conflict', 'tos.version is not set: an agreement is good for ever')
  }
}
