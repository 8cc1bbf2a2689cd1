/** CRLs for administrators: how they stand, and new ones on request. The leader builds them. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { createCrlStore, type PublishedCrl } from '../../store/crl-store.ts'
import { isAnyInstanceAlive } from '../../store/instance-presence.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'

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
  /** Lists that were asked for are not all there yet. */
  isAwaited: boolean
  /** Why there is no new list yet. */
  obstacle: string | undefined
}

const LOOK_MS = 200

export class CrlLists {
  readonly #options: CrlListsOptions

  constructor(options: CrlListsOptions) {
    this.#options = options
  }

  /** Asks for new lists and waits for them, so long. @throws AdminError unavailable when nobody builds them */
  async rebuild(actor: Actor, waitMs: number): Promise<CrlStatus> {
    const { db, audit, staleAfterMs } = this.#options
    if (staleAfterMs === undefined)
      throw new AdminError('unavailable', 'crl.enabled is false: there is no CRL to rebuild')
    await audit.transaction(actor, async (tx, note) => {
      note('crl.rebuild')
      await createCrlStore(queriesOf(tx)).requestRebuild()
    })
    if (!(await isAnyInstanceAlive(queriesOf(db))))
      throw new AdminError(
        'unavailable',
        'no service is running on this database; the first one that starts builds the CRL',
      )
    const deadline = performance.now() + waitMs
    for (;;) {
      const status = await this.status()
      if (!status.isAwaited || performance.now() >= deadline) return status
      await sleep(LOOK_MS)
    }
  }

  async status(): Promise<CrlStatus> {
    const { staleAfterMs } = this.#options
    const lists = currentLists(await this.#store.published(), new Date())
    const request = await this.#store.lastRequest()
    const staleAt = Date.now() - (staleAfterMs ?? 0)
    const isPublished = staleAfterMs !== undefined
    return {
      isPublished,
      lists,
      obstacle: request?.obstacle,
      isStale: lists.length === 0 || lists.some(({ startedAt }) => startedAt.getTime() < staleAt),
      isAwaited: isPublished && request?.isOpen === true,
    }
  }

  get #store() {
    return createCrlStore(queriesOf(this.#options.db))
  }
}

/** An expired list belongs to an issuer that is gone. */
const currentLists = (lists: readonly PublishedCrl[], now: Date) => lists.filter(({ nextUpdate }) => nextUpdate > now)
