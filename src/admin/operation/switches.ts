/** The operator's switches: who set them, since when, and why. Every instance follows within seconds. */

import type { DatabasePool } from 'slonik'
import type { Actor } from '../../domain/administrator.ts'
import type { ServerSwitch } from '../../store/server-settings.ts'
import { createServerSettings, type SwitchPosition } from '../../store/server-settings.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'

export class Switches {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  async position(name: ServerSwitch): Promise<SwitchPosition> {
    return (await this.positions())[name]
  }

  positions(): Promise<Record<ServerSwitch, SwitchPosition>> {
    return createServerSettings(queriesOf(this.#db)).switches()
  }

  async set(actor: Actor, name: ServerSwitch, on: boolean, reason?: string): Promise<SwitchPosition> {
    await this.#audit.transaction(actor, async (tx, note) => {
      const by = actor.operator ?? actor.username
      const moved = await createServerSettings(queriesOf(tx)).setSwitch(name, on, { by, reason })
      if (!moved) return
      if (name === 'maintenance') note('maintenance.set', { enabled: on, reason })
      else note(on ? 'signing.stop' : 'signing.resume', { reason })
    })
    return this.position(name)
  }
}
