/** The part of a report about a sweep: latency against the rate that was planned; chance makes the arrivals a little more or fewer. */

import type { Subject } from '../../servers/contestant.ts'
import { isBroken, type Measured } from '../summary.ts'
import { linearAxis, logAxis, shortNumber } from './axes.ts'
import { element, type Markup, table, text } from './markup.ts'
import { nameOf } from './measured.ts'
import { type Line, plot } from './plot.ts'

interface Point {
  server: number
  /** Arrivals a second: on average, and as counted. */
  planned: number
  offered: number
  served: number
  p50: number
  p99: number
  refused: number
  dropped: number
}

/** One for each scenario with two rates or more. */
export function sweepSections(servers: readonly Subject[], measurements: readonly Measured[]): Markup[] {
  const scenarios = [...new Set(measurements.map(({ scenario }) => scenario))]
  return scenarios.flatMap((scenario) => {
    const points = measurements.filter((measured) => measured.scenario === scenario).flatMap(pointsOf)
    if (new Set(points.map(({ planned }) => planned)).size < 2) return []
    return [
      section(
        scenario,
        servers,
        points.toSorted((a, b) => a.server - b.server || a.planned - b.planned),
      ),
    ]
  })
}

/** Every open loop of every round. */
function pointsOf({ rounds }: Measured): Point[] {
  return rounds.flatMap((turns) =>
    turns.flatMap((turn, server) => {
      if (isBroken(turn) || turn.load.kind !== 'open') return []
      const { latency, perSecond, offered, seconds, refused, dropped } = turn
      return [
        {
          server,
          planned: turn.load.perSecond,
          offered: offered / seconds,
          served: perSecond,
          p50: latency.p50,
          p99: latency.p99,
          refused,
          dropped,
        },
      ]
    }),
  )
}

function section(scenario: string, servers: readonly Subject[], points: readonly Point[]): Markup {
  const lines = servers.flatMap((_, server): Line[] => {
    const own = points.filter((point) => point.server === server)
    const prefix = servers.length > 1 ? `${nameOf(servers, server)}, ` : ''
    return [
      {
        name: `${prefix}99 %`,
        color: servers.length > 1 ? server : 1,
        points: own.map(({ planned, p99 }) => [planned, p99]),
      },
      {
        name: `${prefix}median`,
        color: servers.length > 1 ? server : 0,
        ...(servers.length > 1 && { style: 'dashed' as const }),
        points: own.map(({ planned, p50 }) => [planned, p50]),
      },
    ]
  })
  const values = points.flatMap(({ p50, p99 }) => [p50, p99]).filter((value) => value > 0)
  const most = Math.max(...points.map(({ planned }) => planned))
  const served = servers.map(
    (_, server): Line => ({
      name: servers.length > 1 ? nameOf(servers, server) : 'served',
      color: server,
      points: points.filter((point) => point.server === server).map(({ planned, served: rate }) => [planned, rate]),
    }),
  )
  const diagonal: Line = {
    name: 'planned',
    color: 5,
    style: 'dashed',
    points: [
      [0, 0],
      [most, most],
    ],
  }
  return element(
    'section',
    {},
    element('h2', {}, text(`${scenario}: latency against rate`)),
    element(
      'p',
      { class: 'lead' },
      text('Open loop: arrivals do not wait for answers, and latency counts from when each was due.'),
    ),
    element('div', { class: 'plots' }, [
      plot({
        title: 'Latency of whole operations',
        x: linearAxis('planned per second', most),
        y: logAxis('ms', Math.min(...values, 1e6), Math.max(...values, 0)),
        lines,
      }),
      plot({
        title: 'Served',
        x: linearAxis('planned per second', most),
        y: linearAxis('per second', most),
        lines: [diagonal, ...served],
      }),
    ]),
    table(
      [
        ...(servers.length > 1
          ? [{ title: 'server', kind: 'text' as const, cell: ({ server }: Point) => text(nameOf(servers, server)) }]
          : []),
        ...(['planned', 'offered', 'served', 'p50', 'p99', 'refused', 'dropped'] as const).map((key) => ({
          title: key === 'p50' || key === 'p99' ? `${key}, ms` : key,
          kind: 'number' as const,
          cell: (point: Point) => text(shortNumber(point[key])),
        })),
      ],
      points,
    ),
  )
}
