/**
 * `chancery maintenance …` and `chancery signing …`: switches for all instances on this database.
 */

import type { Config } from '../../config/schema.ts'
import type { ServerSwitch } from '../../domain/server-switch.ts'
import { databaseSettings } from '../../main/settings/server.ts'
import { openDatabase } from '../../store/database.ts'
import { createServerSettings } from '../../store/server-settings.ts'

interface SwitchWords {
  on: string
  off: string
  /** The effect of the switch when it is on. */
  meaning: string
}

const WORDS: Record<ServerSwitch, SwitchWords> = {
  maintenance: {
    on: 'maintenance is on',
    off: 'maintenance is off',
    meaning: 'new-order and new-authz answer 503; orders that exist can be finished',
  },
  stopSigning: {
    on: 'signing is stopped',
    off: 'signing is not stopped',
    meaning: 'no certificate and no CRL is signed; finalize answers 503 and its order stays ready',
  },
}

/** @param on undefined only prints the state */
export async function throwSwitch(config: Config, name: ServerSwitch, on: boolean | undefined): Promise<number> {
  // Not withDatabase: an operator can stop signing between two schemas, and gets a quick answer.
  const db = openDatabase(databaseSettings(config, 1), () => {})
  try {
    const settings = createServerSettings(db)
    if (on !== undefined) await settings.setSwitch(name, on)
    const position = (await settings.switches())[name]
    const words = WORDS[name]
    console.log(`${words[position.on ? 'on' : 'off']}${position.since ? ` since ${position.since.toISOString()}` : ''}`)
    if (position.on) console.log(words.meaning)
    return 0
  } finally {
    await db.close()
  }
}
