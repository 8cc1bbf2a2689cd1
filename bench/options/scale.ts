/** Options of `bench scale`. */

import { COMMON_FLAGS, type Options, parseOptions } from './options.ts'
import { type Flag, OptionsError, type Raw, Reader, withDefaults } from './reader.ts'
import { SERVER_FLAGS } from './servers.ts'

export interface ScaleOptions {
  /** Front threads of one instance, by configuration. */
  fronts: number[]
  /** How many share a database in the last configuration; 0 for none. */
  instances: number
}

const TAKEN = [
  ...['clients', 'processes', 'accounts', 'duration', 'warmup', 'domain-suffix', 'challenge', 'timeout'],
  ...['poll-interval', 'poll-max', 'signing', 'json', 'html'],
]

const REPEAT = 3

const OWN_FLAGS: readonly Flag[] = [
  ['repeat', 'How often each configuration is loaded', REPEAT],
  ['fronts', 'Front threads of one instance, in turn', '1,2,3'],
  ['instances', 'Instances with one front thread each on one database; 0 leaves them out', 2],
]

export const SCALE_FLAGS: readonly Flag[] = [
  ...COMMON_FLAGS.filter(([name]) => TAKEN.includes(name)),
  ...SERVER_FLAGS.filter(([name]) => name === 'server-cpus'),
  ...OWN_FLAGS,
]

const MAX_FRONTS = 64
/** Of the embedded PostgreSQL, without those that it keeps for its superuser. */
const CONNECTIONS = 97
/** Most that a service holds: of its supervisor, and of each front thread. */
const CONNECTIONS_OF = { service: 5, front: 4 }

export function parseScaleOptions(given: Raw): { options: Options; scale: ScaleOptions } {
  const raw = withDefaults(OWN_FLAGS, given)
  const options = parseOptions({ ...raw, start: true, workers: 1 })
  const read = new Reader(raw)
  const scale = { fronts: readFronts(read), instances: read.integer('instances', { min: 0, max: 16 }) }
  if (scale.instances === 1) read.errors.push('--instances 1: one alone is measured anyway; 2 or more, or 0')
  if (options.clients < scale.instances)
    read.errors.push(`--clients ${options.clients}: fewer than --instances ${scale.instances}`)
  if (options.accounts < scale.instances)
    read.errors.push(`--accounts ${options.accounts}: fewer than --instances ${scale.instances}`)
  if (connectionsOf(scale) > CONNECTIONS)
    read.errors.push('--fronts, --instances: together more connections than the embedded PostgreSQL takes; name fewer')
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return { options, scale }
}

function readFronts(read: Reader): number[] {
  const text = read.text('fronts')
  const fronts = text.split(',').map(Number)
  const isGood = fronts.every((count) => Number.isInteger(count) && count >= 1 && count <= MAX_FRONTS)
  if (isGood && new Set(fronts).size === fronts.length) return fronts
  read.errors.push(`--fronts ${text}: different whole numbers from 1 to ${MAX_FRONTS}, with commas between`)
  return [1]
}

/** The service that brings PostgreSQL, each configuration, and the one that the instances are compared with. */
function connectionsOf({ fronts, instances }: ScaleOptions): number {
  const single = 1 + (instances > 0 ? instances + 1 : 0)
  return [...fronts, ...Array<number>(single).fill(1)].reduce(
    (sum, count) => sum + CONNECTIONS_OF.service + CONNECTIONS_OF.front * count,
    0,
  )
}
