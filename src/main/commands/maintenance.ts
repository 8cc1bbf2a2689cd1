/** `chancery maintenance on|off|status`: the flag that every instance on this database follows. */

import type { Config } from '../../config/schema.ts'
import { openDatabase } from '../../store/database.ts'
import { createServerSettings } from '../../store/server-settings.ts'
import { databaseSettings } from '../settings.ts'

export async function switchMaintenance(config: Config, action: 'on' | 'off' | 'status'): Promise<number> {
  const db = openDatabase(databaseSettings(config, 1), () => {})
  try {
    const settings = createServerSettings(db)
    if (action !== 'status') await settings.setMaintenance(action === 'on')
    const { enabled, since } = await settings.maintenance()
    console.log(`maintenance is ${enabled ? 'on' : 'off'}${since ? ` since ${since.toISOString()}` : ''}`)
    if (enabled) console.log('new-order and new-authz answer 503; orders that exist can be finished')
    return 0
  } finally {
    await db.close()
  }
}
