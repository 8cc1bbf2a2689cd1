/** SQL of settings that change at run time, for all instances (table server_settings). */

import { SERVER_SWITCHES, type ServerSwitch } from '../domain/server-switch.ts'
import type { Database, Statement } from './database.ts'

export interface SwitchPosition {
  on: boolean
  /** Undefined when it has never been thrown. */
  since: Date | undefined
}

export interface ServerSettings {
  switches(): Promise<Record<ServerSwitch, SwitchPosition>>
  setSwitch(name: ServerSwitch, on: boolean): Promise<void>
}

const READ: Statement = {
  name: 'server-settings-read',
  // server_settings_pkey
  text: 'SELECT key, value, updated_at FROM server_settings WHERE key = ANY ($1)',
}

const WRITE: Statement = {
  name: 'server-setting-write',
  text: `
    INSERT INTO server_settings (key, value) VALUES ($1, $2)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = now()`,
}

interface SettingRow {
  key: string
  value: { enabled?: boolean }
  updated_at: Date
}

export function createServerSettings(db: Pick<Database, 'query'>): ServerSettings {
  return {
    async switches() {
      const rows = await db.query<SettingRow>(READ, [Object.values(SERVER_SWITCHES)])
      const position = (name: ServerSwitch): SwitchPosition => {
        const row = rows.find(({ key }) => key === SERVER_SWITCHES[name])
        return { on: row?.value.enabled === true, since: row?.updated_at }
      }
      return { maintenance: position('maintenance'), stopSigning: position('stopSigning') }
    },
    async setSwitch(name, on) {
      await db.query(WRITE, [SERVER_SWITCHES[name], JSON.stringify({ enabled: on })])
    },
  }
}
