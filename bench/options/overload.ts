/** Options of `bench overload`. */

import { COMMON_FLAGS, type Options, parseOptions } from './options.ts'
import { type Flag, OptionsError, type Raw, Reader, SECONDS, withDefaults } from './reader.ts'
import { SERVER_FLAGS } from './servers.ts'

export interface OverloadOptions {
  /** Of each calm part. */
  calmSeconds: number
  floodSeconds: number
  /** Rates, as multiples of the maximum. */
  calmShare: number
  factor: number
}

/** Enough to have many in flight at a server that only queues, and few enough for its descriptors. */
const CONNECTIONS = 1000
/** Whoever waits longer for a connection, in a flood, is one of those who are too many. */
const PATIENCE_SECONDS = 1

const OWN_FLAGS: readonly Flag[] = [
  ['connections', 'Most connections', CONNECTIONS],
  ['patience', 'Seconds that an arrival waits for a connection before it counts as dropped', PATIENCE_SECONDS],
  ['flood', 'Seconds of the flood', 60],
  ['calm', 'Seconds before the flood and after it', 15],
  ['factor', 'Rate of the flood, in multiples of the maximum', 2],
  ['calm-share', 'Rate before and after it, as a part of the maximum', 0.5],
]

const USED = (name: string) => (flag: Flag) => flag[0] === name
export const OVERLOAD_FLAGS: readonly Flag[] = [
  ...COMMON_FLAGS,
  ...['start', 'beside', 'against', 'workers', 'server-cpus'].flatMap((name) => SERVER_FLAGS.filter(USED(name))),
  ...OWN_FLAGS,
]

/** Calm is looked at without its first second. */
const PART_SECONDS = { min: 2, max: SECONDS.max }
export function parseOverloadOptions(given: Raw): { options: Options; overload: OverloadOptions } {
  const raw = withDefaults(OWN_FLAGS, given)
  const options = parseOptions(raw)
  const read = new Reader(raw)
  const overload = {
    calmSeconds: read.number('calm', PART_SECONDS),
    floodSeconds: read.number('flood', PART_SECONDS),
    factor: read.number('factor', { min: 1, max: 1000 }),
    calmShare: read.number('calm-share', { min: 0.01, max: 1 }),
  }
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return { options, overload }
}
