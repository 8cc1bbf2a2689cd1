/** Options of `bench abuse`. */

import { ABUSE_KINDS, type AbuseKind } from '../abuse/messages.ts'
import { COMMON_FLAGS, isLoopback, type Options, parseOptions } from './options.ts'
import { type Flag, OptionsError, type Raw, Reader, withDefaults } from './reader.ts'
import { SERVER_FLAGS } from './servers.ts'

export interface AbuseOptions {
  kinds: AbuseKind[]
  connections: number
  /** Each connection does one thing, then waits this long. */
  pauseMs: number
  /** Address the abuser comes from; undefined leaves it to the system. */
  from: string | undefined
}

const REPEAT = 3

const OWN_FLAGS: readonly Flag[] = [
  ['repeat', 'How often each server is loaded, alone and beside each abuser', REPEAT],
  ['abuse', `What the abuser does, in turn if several, or "all": ${ABUSE_KINDS.join(',')}`, 'all'],
  ['abuser-connections', 'Connections of the abuser', 1000],
  ['abuser-pause', 'Milliseconds that each of them waits between two acts', 1000],
  ['abuser-from', 'IPv4 address of this machine that the abuser comes from (default: 127.0.0.66 for a server here)'],
]

const SERVER_FLAGS_HERE = ['start', 'beside', 'against', 'workers', 'server-cpus']
export const ABUSE_FLAGS: readonly Flag[] = [
  ...COMMON_FLAGS,
  ...SERVER_FLAGS.filter(([name]) => SERVER_FLAGS_HERE.includes(name)),
  ...OWN_FLAGS,
]

/** Another address than the well-behaved clients', so that a server can tell them apart. */
const LOOPBACK_ADDRESS = '127.0.0.66'

export function parseAbuseOptions(given: Raw): { options: Options; abuse: AbuseOptions } {
  const raw = withDefaults(OWN_FLAGS, given)
  const options = parseOptions(raw)
  const read = new Reader(raw)
  const isHere = options.servers.start || isLoopback(options.directoryUrl)
  const abuse = {
    kinds: readKinds(read),
    connections: read.integer('abuser-connections', { min: 1, max: 20_000 }),
    pauseMs: read.number('abuser-pause', { min: 1, max: 3_600_000 }),
    from: read.optionalText('abuser-from') ?? (isHere ? LOOPBACK_ADDRESS : undefined),
  }
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return { options, abuse }
}

function readKinds(read: Reader): AbuseKind[] {
  const text = read.text('abuse')
  if (text === 'all') return [...ABUSE_KINDS]
  return text.split(',').flatMap((name) => {
    const kind = ABUSE_KINDS.find((known) => known === name.trim())
    if (!kind) read.errors.push(`--abuse ${name}: not one of ${ABUSE_KINDS.join(', ')}`)
    return kind ?? []
  })
}
