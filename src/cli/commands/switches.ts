/**
 * `chancery maintenance …` and `chancery signing …`: switches for all instances on this database.
 */

import type { Config } from '../../config/schema.ts'
import type { ServerSwitch } from '../../domain/server-switch.ts'
import { Switches } from '../../services/admin/switches.ts'
import type { SwitchPosition } from '../../store/server-settings.ts'
import { type Administration, withAdministration } from './administration.ts'

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

export interface SwitchFlags {
  /** Undefined only prints the position. */
  on: boolean | undefined
  reason: string | undefined
  json: boolean
}

export async function throwSwitch(config: Config, name: ServerSwitch, flags: SwitchFlags): Promise<number> {
  const work = ({ db, audit, actor }: Administration) => {
    const switches = new Switches(db, audit)
    return flags.on === undefined ? switches.position(name) : switches.set(actor, name, flags.on, flags.reason)
  }
  // An operator can stop signing between two schemas.
  const position = await withAdministration(config, work, 'any')
  const { on, since = null, by = null, reason = null } = position
  if (flags.json) console.log(JSON.stringify({ enabled: on, since, set_by: by, reason }))
  else print(position, WORDS[name])
  return 0
}

function print({ on, since, by, reason }: SwitchPosition, words: SwitchWords): void {
  const author = by === undefined ? '' : ` by ${by}`
  console.log(`${words[on ? 'on' : 'off']}${since ? ` since ${since.toISOString()}${author}` : ''}`)
  if (reason !== undefined) console.log(`reason: ${reason}`)
  if (on) console.log(words.meaning)
}
