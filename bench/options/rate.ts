/** `--rate` and what belongs to the open loop. */

import type { Flag, Raw, Reader } from './reader.ts'

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
  ['connections', 'Open loop: most connections (default: four for each client, in an overload 1000)'],
  ['patience', 'Open loop: seconds that an arrival waits for a connection before it counts as dropped', 5],
]

const CONNECTIONS_PER_CLIENT = 4

export function readOpen(read: Reader, raw: Raw, clients: number, defaultConnections?: number): OpenOptions {
  const connections = read.optionalInteger('connections', 1)
  return {
    rates: raw.rate === undefined ? [] : readRates(read),
    connections: connections ?? defaultConnections ?? CONNECTIONS_PER_CLIENT * clients,
    patienceMs: 1000 * read.number('patience'),
  }
}

function readRates(read: Reader): Rate[] {
  return read
    .text('rate')
    .split(',')
    .flatMap((text): Rate[] => {
      const [, number, percent] = /^ *(\d+(?:\.\d+)?)(%?) *$/.exec(text) ?? []
      if (Number(number) > 0) return percent ? [{ ofMaximum: Number(number) / 100 }] : [{ perSecond: Number(number) }]
      read.errors.push(`--rate ${text}: must be a number of operations per second or a percentage, above 0`)
      return []
    })
}
