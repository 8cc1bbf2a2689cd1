/** A long run at half load without faults: samples of what must stay flat, and whether it does. */

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { familyOf } from '../measure/server-cpu.ts'
import type { Held } from './clients.ts'
import type { Stand } from './stand.ts'

/** Seconds from the start, and the value then. */
export type Point = readonly [at: number, value: number]

export interface Series {
  name: string
  points: Point[]
}

export interface Verdict {
  name: string
  /** Medians of the first and the last fifth of the second half; of what vacuum removes, peaks of its two halves. */
  first: number
  last: number
  /** By a line through the second half; undefined for peaks. */
  perHour: number | undefined
  isFlat: boolean
}

export interface Soak {
  perSecond: number
  series: Series[]
  verdicts: Verdict[]
}

const EVERY_MS = 10_000
/** The share of the median an hour below which a rise is noise, or a cache that fills. */
const FLAT_SHARE = 0.1

/** By design these grow with the certificates. */
const GROWS = /^size of/
/** Vacuum makes saw-teeth of them. */
const SAW = /^dead rows of/

/** @param flows of the clients, which grows meanwhile */
export async function soak(
  stand: Stand,
  flows: readonly Held[],
  { seconds, perSecond, interrupt }: { seconds: number; perSecond: number; interrupt: AbortSignal },
): Promise<Soak> {
  const series = new Map<string, Series>()
  const startedAt = Date.now()
  for (let next = startedAt; next < startedAt + 1000 * seconds && !interrupt.aborted; ) {
    next += EVERY_MS
    // Rejects when the run is interrupted; the loop ends then.
    await sleep(Math.max(0, next - Date.now()), undefined, { signal: interrupt }).catch(() => undefined)
    const at = (Date.now() - startedAt) / 1000
    const values = { ...processesOf(stand), ...(await databaseOf(stand)), ...latencies(flows, Date.now() - EVERY_MS) }
    for (const [name, value] of Object.entries(values)) {
      const one = series.get(name) ?? { name, points: [] }
      one.points.push([at, value])
      series.set(name, one)
    }
  }
  const all = [...series.values()]
  return { perSecond, series: all, verdicts: all.filter(({ name }) => !GROWS.test(name)).map(judge) }
}

function processesOf(stand: Stand): Record<string, number> {
  const parts = [stand.signer, ...stand.instances.map(({ part }) => part), stand.databases.primary.part]
  return Object.fromEntries(
    parts.flatMap(({ name, pid }) => {
      const pids = pid === undefined ? [] : familyOf(pid).map((one) => one.pid)
      const sum = (of: (pid: number) => number) => pids.reduce((total, one) => total + of(one), 0)
      return [
        [`memory of ${name}, MB`, sum(memoryOf) / 1024],
        [`descriptors of ${name}`, sum(descriptorsOf)],
      ]
    }),
  )
}

/** Proportional set size in KB: pages that processes share count once. */
function memoryOf(pid: number): number {
  try {
    return Number(/^Pss: +(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0)
  } catch {
    // It has ended meanwhile.
    return 0
  }
}

function descriptorsOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    // It has ended meanwhile.
    return 0
  }
}

async function databaseOf({ databases }: Stand): Promise<Record<string, number>> {
  const [connections, sizes, dead] = await Promise.all([
    databases.ask<{ count: number }>("SELECT count(*)::integer FROM pg_stat_activity WHERE usename = 'chancery'"),
    databases.ask<{ name: string; megabytes: number }>(
      `SELECT relname AS name, pg_total_relation_size(oid) / 1048576.0::float8 AS megabytes FROM pg_class
        WHERE relname IN ('certificates', 'orders', 'authorizations', 'event_deliveries', 'notifications', 'nonce_audit')
          AND relkind IN ('r', 'p')`,
    ),
    databases.ask<{ name: string; count: number }>(
      `SELECT relname AS name, n_dead_tup::float8 AS count FROM pg_stat_user_tables
        WHERE relname IN ('orders', 'authorizations', 'event_deliveries', 'issuance_intents')`,
    ),
  ])
  return {
    connections: connections[0]?.count ?? 0,
    ...Object.fromEntries(sizes.map(({ name, megabytes }) => [`size of ${name}, MB`, megabytes])),
    ...Object.fromEntries(dead.map(({ name, count }) => [`dead rows of ${name}`, count])),
  }
}

function latencies(flows: readonly Held[], since: number): Record<string, number> {
  const times = flows
    .slice(flows.findLastIndex(({ at }) => at < since) + 1)
    .map(({ begunAt, at }) => at - begunAt)
    .sort((a, b) => a - b)
  if (times.length === 0) return {}
  return { 'flow p50, ms': times[times.length >> 1]!, 'flow p99, ms': times[Math.floor(times.length * 0.99)]! }
}

/** @returns the slope of the least squares over the second half, an hour, and whether it is small beside the values */
export function judge({ name, points }: Series): Verdict {
  const half = points.slice(points.length >> 1)
  const rounded = (value: number) => Math.round(value * 10) / 10
  if (SAW.test(name)) {
    const [first, last] = [peak(half.slice(0, half.length >> 1)), peak(half.slice(half.length >> 1))]
    return { name, first, last, perHour: undefined, isFlat: last <= first * (1 + FLAT_SHARE) }
  }
  const fifth = Math.max(1, Math.floor(half.length / 5))
  const [first, last] = [median(half.slice(0, fifth)), median(half.slice(-fifth))]
  const [meanAt, meanValue] = [mean(half.map(([at]) => at)), mean(half.map(([, value]) => value))]
  const spread = half.reduce((sum, [at]) => sum + (at - meanAt) ** 2, 0)
  const slope = half.reduce((sum, [at, value]) => sum + (at - meanAt) * (value - meanValue), 0) / (spread || 1)
  const perHour = slope * 3_600
  // A line through noise also rises now and then: the last values must be above the first ones, too.
  const isFlat = perHour <= FLAT_SHARE * meanValue || last <= first * (1 + FLAT_SHARE / 2)
  return { name, first: rounded(first), last: rounded(last), perHour: rounded(perHour), isFlat }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1)

const peak = (points: readonly Point[]) => points.reduce((most, [, value]) => Math.max(most, value), 0)

function median(points: readonly Point[]): number {
  const values = points.map(([, value]) => value).sort((a, b) => a - b)
  return values[values.length >> 1] ?? 0
}
