/** All servers and scenarios in one table: medians of throughput, and the server CPU of a full flow. */

import type { Subject } from '../servers/contestant.ts'
import { letterOf, type Measured } from './summary.ts'

export interface Overview {
  columns: string[]
  rows: {
    server: string /** In the order of the columns; undefined where a server has no figure. */
    values: (number | undefined)[]
  }[]
}

/** @returns undefined where one look at the tables of the scenarios says as much. */
export function buildOverview(servers: readonly Subject[], measurements: readonly Measured[]): Overview | undefined {
  const closed = measurements.filter(({ load, rounds }) => load === 'closed loop' && rounds.length > 0)
  if (servers.length < 2 || closed.length === 0) return undefined
  const columns = closed.flatMap((measured) => columnsOf(measured))
  return {
    columns: columns.map(({ title }) => title),
    rows: servers.map(({ name }, index) => ({
      server: `${letterOf(index)}  ${name}`,
      values: columns.map(({ medianOf }) => medianOf(index)),
    })),
  }
}

function columnsOf({ scenario, figures }: Measured): { title: string; medianOf(server: number): number | undefined }[] {
  const median = (name: keyof typeof figures) => (server: number) => figures[name]?.servers[server]?.median
  const perSecond = { title: `${scenario}/s`, medianOf: median('perSecond') }
  return scenario === 'full-flow'
    ? [
        perSecond,
        { title: 'server CPU µs', medianOf: median('serverMicros') },
        { title: '× floor', medianOf: median('serverFloors') },
      ]
    : [perSecond]
}
