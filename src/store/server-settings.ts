/** SQL of settings that change while the service runs and hold for all instances (table server_settings). */

import type { Database, Statement } from './database.ts'

const MAINTENANCE_KEY = 'maintenance_mode'

export interface Maintenance {
  enabled: boolean
  /** Undefined when it has never been set. */
  since: Date | undefined
}

export interface ServerSettings {
  maintenance(): Promise<Maintenance>
  setMaintenance(enabled: boolean): Promise<void>
}

const READ: Statement = {
  name: 'server-setting-read',
  // server_settings_pkey, one row
  text: 'SELECT value, updated_at FROM server_settings WHERE key = $1',
}

const WRITE: Statement = {
  name: 'server-setting-write',
  text: `
    INSERT INTO server_settings (key, value) VALUES ($1, $2)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = now()`,
}

export function createServerSettings(db: Pick<Database, 'query'>): ServerSettings {
  return {
    async maintenance() {
      const [row] = await db.query<{ value: { enabled?: boolean }; updated_at: Date }>(READ, [MAINTENANCE_KEY])
      return { enabled: row?.value.enabled === true, since: row?.updated_at }
    },
    async setMaintenance(enabled) {
      await db.query(WRITE, [MAINTENANCE_KEY, JSON.stringify({ enabled })])
    },
  }
}
