/** `npm run bench -- profile`: its options. */

import { COMMON_FLAGS, type Options, parseOptions } from '../options/options.ts'
import { type Flag, OptionsError, type Raw, Reader } from '../options/reader.ts'
import { SERVER_FLAGS } from '../options/servers.ts'
import type { ProfileSettings } from './profile.ts'

const TAKEN = [
  ...['scenario', 'clients', 'processes', 'accounts', 'duration', 'count', 'warmup', 'domain-suffix', 'challenge'],
  ...['timeout', 'poll-interval', 'poll-max', 'signing', 'json', 'workers', 'server-cpus'],
]
const TOP = 25

export const PROFILE_FLAGS: readonly Flag[] = [
  ...[...COMMON_FLAGS, ...SERVER_FLAGS].filter(([name]) => TAKEN.includes(name)),
  ['top', 'How many functions to list', TOP],
]

/** @throws OptionsError */
export function parseProfileOptions(raw: Raw): { settings: ProfileSettings; options: Options } {
  const read = new Reader({ top: TOP, ...raw })
  const top = read.integer('top', { min: 1 })
  const options = parseOptions({ ...raw, start: true })
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  const { workers, serverCpus } = options.servers
  return { settings: { workers, serverCpus, top }, options }
}
