/** SQL of settings that change at run time, for all instances (table server_settings). */

import type { Database, Statement } from './database.ts'

/** Switch → its key in the table server_settings. */
export const SERVER_SWITCHES = {
  /** No new orders. */
  maintenance: 'maintenance_mode',
  /** Nothing is signed: no certificate, no CRL. */
  stopSigning: 'signing_stopped',
} as const

export type ServerSwitch = keyof typeof SERVER_SWITCHES

export interface SwitchPosition {
  on: boolean
  /** Undefined when it has never been thrown. */
  since: Date | undefined
  /** Username of the administrator, or OS user of the command line. */
  by: string | undefined
  reason: string | undefined
}

interface ServerSettings {
  switches(): Promise<Record<ServerSwitch, SwitchPosition>>
  /** @returns false when it was in this position already */
  setSwitch(name: ServerSwitch, on: boolean, author: { by: string; reason: string | undefined }): Promise<boolean>
}

const READ: Statement = {
  name: 'server-settings-read',
  // server_settings_pkey
  text: 'SELECT key, value, updated_at FROM server_settings WHERE key = ANY ($1)',
}

const WRITE: Statement = {
  name: 'server-setting-write',
  text: `
    INSERT INTO server_settings AS s (key, value)
    SELECT $1, $2::jsonb
     WHERE ($2::jsonb->'enabled')::boolean OR EXISTS (SELECT FROM server_settings WHERE key = $1)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, updated_at = now()
     WHERE s.value->'enabled' IS DISTINCT FROM EXCLUDED.value->'enabled'
    RETURNING key`,
}

interface SettingRow {
  key: string
  value: { enabled?: boolean; by?: string; reason?: string }
  updated_at: Date
}

export function createServerSettings(db: Pick<Database, 'query'>): ServerSettings {
  return {
    async switches() {
      const rows = await db.query<SettingRow>(READ, [Object.values(SERVER_SWITCHES)])
      const position = (name: ServerSwitch): SwitchPosition => {
        const row = rows.find(({ key }) => key === SERVER_SWITCHES[name])
        const { enabled, by, reason } = row?.value ?? {}
        return { on: enabled === true, since: row?.updated_at, by, reason }
      }
      return { maintenance: position('maintenance'), stopSigning: position('stopSigning') }
    },
    async setSwitch(name, on, { by, reason }) {
      const value = JSON.stringify({ enabled: on, by, reason })
      return (await db.query(WRITE, [SERVER_SWITCHES[name], value])).length > 0
    },
  }
}

/** Revocations by commands, which have no metrics: kept here until an instance counts them. */
export interface RevocationTally {
  certificates: number
  /** Accounts that were revoked with their binding credential. */
  accounts: number
}

const KEY = 'command_revocations'

const ADD: Statement = {
  name: 'revocation-tally-add',
  text: `
    INSERT INTO server_settings AS s (key, value)
    VALUES ('${KEY}', jsonb_build_object('certificates', $1::bigint, 'accounts', $2::bigint))
    ON CONFLICT (key) DO UPDATE SET value = jsonb_build_object(
      'certificates', (s.value->>'certificates')::bigint + $1, 'accounts', (s.value->>'accounts')::bigint + $2)`,
}

const TAKE: Statement = {
  name: 'revocation-tally-take',
  // server_settings_pkey, one row; of instances that ask at once, one gets it.
  text: `DELETE FROM server_settings WHERE key = '${KEY}' RETURNING value`,
}

export async function addRevocations(
  db: Pick<Database, 'query'>,
  { certificates, accounts }: RevocationTally,
): Promise<void> {
  if (certificates + accounts > 0) await db.query(ADD, [certificates, accounts])
}

/** @returns undefined when there were none since the last call by any instance */
export async function takeRevocations(db: Pick<Database, 'query'>): Promise<RevocationTally | undefined> {
  return (await db.query<{ value: RevocationTally }>(TAKE, []))[0]?.value
}
