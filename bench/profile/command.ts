/** `npm run bench -- profile`: its options. */

import { FLAGS, type Options, parseOptions } from '../options/options.ts'
import { type Flag, OptionsError } from '../options/reader.ts'
import type { ProfileSettings } from './profile.ts'

const TAKEN = [
  ...['scenario', 'clients', 'processes', 'accounts', 'duration', 'count', 'warmup', 'domain-suffix', 'challenge'],
  ...['timeout', 'poll-interval', 'poll-max', 'signing', 'json'],
]

/** Name, sentence, default: what `--help` shows and what is accepted. */
export const PROFILE_FLAGS: readonly Flag[] = [
  ...FLAGS.filter(([name]) => TAKEN.includes(name)),
  ['workers', 'Front threads of the service (default: what the service takes)'],
  ['server-cpus', 'Processors of the service, such as 0-2 (needs taskset)'],
  ['top', 'How many functions to list', 25],
]

/** @throws OptionsError */
export function parseProfileOptions(raw: Readonly<Record<string, unknown>>): {
  settings: ProfileSettings
  options: Options
} {
  const { workers, 'server-cpus': serverCpus, top, ...others } = raw
  const errors: string[] = []
  const integer = (name: string, value: unknown) => {
    if (Number.isInteger(value) && Number(value) >= 1) return Number(value)
    errors.push(`--${name} ${value}: must be a whole number from 1`)
    return 1
  }
  const settings = {
    workers: workers === undefined ? undefined : integer('workers', workers),
    serverCpus: serverCpus === undefined ? undefined : String(serverCpus),
    top: integer('top', top),
  }
  if (settings.serverCpus !== undefined && !/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(settings.serverCpus))
    errors.push(`--server-cpus ${settings.serverCpus}: must look like 0-2 or 0,2`)
  if (errors.length > 0) throw new OptionsError(errors)
  return { settings, options: parseOptions(others) }
}
