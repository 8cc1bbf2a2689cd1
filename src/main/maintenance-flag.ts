/** The maintenance flag: stored in the database, followed by every instance, read by the fronts from shared memory. */

import type { Logger } from 'pino'
import { type Loop, startLoop } from '../background/loop.ts'
import type { InstanceBoard } from '../services/instance-board.ts'
import type { Database } from '../store/database.ts'
import { createServerSettings } from '../store/server-settings.ts'

/** doc 1 wants every thread to know within two seconds. */
const MAINTENANCE_POLL_MS = 1_000

/** Keeps the board's flag at what the database says; the last known value holds while the database is away. */
export async function followMaintenance(db: Database, board: InstanceBoard, log: Logger): Promise<Loop> {
  const settings = createServerSettings(db)
  const look = async () => {
    const { enabled } = await settings.maintenance()
    if (enabled === board.isInMaintenance()) return
    board.setMaintenance(enabled)
    log.warn({ event: 'maintenance_mode_changed', enabled }, enabled ? 'in maintenance' : 'maintenance has ended')
  }
  await look()
  return startLoop({
    name: 'maintenance',
    intervalMs: MAINTENANCE_POLL_MS,
    round: look,
    onError: (_, error) => log.debug({ err: error }, 'the maintenance flag could not be read'),
  })
}
