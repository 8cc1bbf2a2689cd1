/** Options of `bench profile`. */

import type { ProfileSettings } from '../profile/profile.ts'
import { FLAGS, type Options, parseOptions } from './options.ts'
import { type Flag, OptionsError, Reader } from './reader.ts'
import { readCpus, WORKERS } from './servers.ts'

const TAKEN = [
  ...['scenario', 'clients', 'processes', 'accounts', 'duration', 'count', 'warmup', 'domain-suffix', 'challenge'],
  ...['timeout', 'poll-interval', 'poll-max', 'signing', 'json', 'html'],
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
  const { workers: _, 'server-cpus': __, top: ___, ...others } = raw
  const read = new Reader(raw)
  const settings = {
    workers: read.optionalInteger('workers', WORKERS),
    serverCpus: readCpus(read),
    top: read.integer('top', { min: 1, max: 10_000 }),
  }
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return { settings, options: parseOptions(others) }
}
