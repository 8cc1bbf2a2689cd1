/** CRLs for administrators: how they stand, and new ones on request. The leader builds them. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { createCrlStore, type PublishedCrl } from '../../store/crl-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from './audit-log.ts'

export interface CrlListsOptions {
  db: DatabasePool
  audit: AuditLog
  /** Undefined when no CRL is published. Otherwise after how long without a new list one is stale. */
  staleAfterMs: number | undefined
}

export interface CrlStatus {
  /** False when no CRL is published. */
  isPublished: boolean
  lists: readonly PublishedCrl[]
  /** A list of the present is older than `staleAfterMs` or over, or there is none. */
  isStale: boolean
  /** Why there is no new list yet. */
  obstacle: string | undefined
}

const LOOK_MS = 200

export class CrlLists {
  readonly #options: CrlListsOptions

  constructor(options: CrlListsOptions) {
    this.#options = options
  }

  /** Asks for new lists. @returns when, by the database's clock. @throws AdminError unavailable */
  async request(actor: Actor): Promise<Date> {
    if (this.#options.staleAfterMs === undefined)
      throw new AdminError('unavailable', 'crl.enabled is false: there is no CRL to rebuild')
    return this.#options.audit.transaction(actor, async (tx, note) => {
      note('crl.rebuild')
      return createCrlStore(queriesOf(tx)).requestRebuild()
    })
  }

  /** Asks for new lists and waits for them, so long. */
  async rebuild(actor: Actor, waitMs: number): Promise<CrlStatus> {
    const requestedAt = await this.request(actor)
    const deadline = performance.now() + waitMs
    while (!(await this.areNew(requestedAt)) && performance.now() < deadline) await sleep(LOOK_MS)
    return this.status()
  }

  /** Whether all lists that have not ended were begun after this time. */
  async areNew(requestedAt: Date): Promise<boolean> {
    const lists = currentLists(await this.#store.published(), requestedAt)
    return lists.length > 0 && lists.every(({ startedAt }) => startedAt > requestedAt)
  }

  async status(): Promise<CrlStatus> {
    const lists = currentLists(await this.#store.published(), new Date())
    const staleAt = Date.now() - (this.#options.staleAfterMs ?? 0)
    const isStale = lists.length === 0 || lists.some(({ startedAt }) => startedAt.getTime() < staleAt)
    const isPublished = this.#options.staleAfterMs !== undefined
    return { isPublished, lists, isStale, obstacle: await this.#store.obstacle() }
  }

  get #store() {
    return createCrlStore(queriesOf(this.#options.db))
  }
}

/** An expired list belongs to an issuer that is gone. */
const currentLists = (lists: readonly PublishedCrl[], now: Date) => lists.filter(({ nextUpdate }) => nextUpdate > now)
