/** `--rate` and what belongs to the open loop. */

import { type Flag, type Raw, type Reader, SECONDS } from './reader.ts'

/** Of what a closed loop just before has reached, or operations per second. */
export type Rate = { ofMaximum: number } | { perSecond: number }

export interface OpenOptions {
  /** In turn; none is the closed loop alone. */
  rates: Rate[]
  connections: number
  patienceMs: number
}

export const RATE_FLAGS: readonly Flag[] = [
  ['rate', 'Open loop: operations per second, such as 500, or 25%,50%,100% of what a closed loop just before reaches'],
  ['connections', 'Open loop: most connections (default: four for each client)'],
  ['patience', 'Open loop: seconds that an arrival waits for a connection before it counts as dropped', 5],
]

const CONNECTIONS_PER_CLIENT = 4
const MOST_CONNECTIONS = 100_000
/** Operations a second, and times the maximum. */
const MOST = { perSecond: 1_000_000, ofMaximum: 100 }

export function readOpen(read: Reader, raw: Raw, clients: number): OpenOptions {
  const connections = read.optionalInteger('connections', { min: 1, max: MOST_CONNECTIONS })
  return {
    rates: raw.rate === undefined ? [] : readRates(read),
    connections: connections ?? CONNECTIONS_PER_CLIENT * clients,
    patienceMs: 1000 * read.number('patience', SECONDS),
  }
}

function readRates(read: Reader): Rate[] {
  return read
    .text('rate')
    .split(',')
    .flatMap((text): Rate[] => {
      const [, number, percent] = /^ *(\d+(?:\.\d+)?)(%?) *$/.exec(text) ?? []
      const value = Number(number)
      if (value > 0 && percent && value / 100 <= MOST.ofMaximum) return [{ ofMaximum: value / 100 }]
      if (value > 0 && !percent && value <= MOST.perSecond) return [{ perSecond: value }]
      const bounds = `to ${MOST.perSecond} or ${100 * MOST.ofMaximum}%`
      read.errors.push(`--rate ${text}: must be a number of operations per second or a percentage, above 0, ${bounds}`)
      return []
    })
}
