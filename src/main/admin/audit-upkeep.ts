/**
 * What the admin thread does for the audit log without being asked: it watches its end, writes its
 * head to the service's log, sums up failed logins, and lets retention cut it.
 */

import type { Logger } from 'pino'
import type { AuditLog } from '../../admin/audit/audit-log.ts'
import { AuditRetention } from '../../admin/audit/audit-retention.ts'
import type { AuditWatch } from '../../admin/audit/audit-watch.ts'
import { noteStrangers } from '../../admin/users/failed-logins.ts'
import { renderHead } from '../../domain/audit-chain.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'
import type { DatabasePool } from '../../store/slonik.ts'
import type { ReloadChanges } from '../messages.ts'

const LOOK_MS = 5_000
const HEAD_EVERY_MS = 60_000

export interface AuditUpkeepOptions {
  db: DatabasePool
  key: Buffer
  audit: AuditLog
  watch: AuditWatch
  log: Logger
}

export class AuditUpkeep {
  readonly #options: AuditUpkeepOptions
  readonly #retention: AuditRetention
  readonly #rounds: Loop
  /** `performance.now()` of the next line. */
  #lineAt = 0

  constructor(options: AuditUpkeepOptions) {
    const { log } = options
    this.#options = options
    this.#retention = new AuditRetention(options)
    this.#rounds = startLoop({
      name: 'audit_head',
      intervalMs: LOOK_MS,
      round: () => this.#round(),
      onError: (_name, error) => log.warn({ err: error }, 'the head of the audit log cannot be read'),
    })
  }

  /** @returns the number of deleted entries */
  cut(before: Date): Promise<number> {
    return this.#retention.cut(before)
  }

  async noteReload({ applied, needRestart }: ReloadChanges): Promise<undefined> {
    const details = { signal: 'SIGHUP', applied, need_restart: needRestart }
    await this.#options.audit.record({ userId: undefined, ipAddress: undefined }, 'settings.reload', details)
  }

  stop(): Promise<void> {
    return this.#rounds.stop()
  }

  async #round(): Promise<void> {
    const { audit, watch, log } = this.#options
    const head = await watch.look()
    if (performance.now() < this.#lineAt) return
    this.#lineAt = performance.now() + HEAD_EVERY_MS
    // An intruder can cut the tail of the table and move its head, but not the heads in the log.
    log.info({ event: 'audit_head', head: renderHead(head) }, 'head of the audit log')
    await noteStrangers(audit)
  }
}
