/** The plots of one result: distribution of latency, and throughput, latency, CPU and memory over time. */

import { ROLES, type Role } from '../../measure/server-cpu.ts'
import type { Result } from '../result.ts'
import { CURVE_FRACTIONS, type SeriesSlot } from '../series.ts'
import { ROLE_NAMES } from '../text.ts'
import { type Axis, linearAxis, logAxis, ninesAxis, shortNumber, timeAxis } from './axes.ts'
import type { Markup } from './markup.ts'
import { type Line, type Plot, plot } from './plot.ts'

export const ROLE_COLORS: Record<Role, number> = { service: 0, signer: 1, postgres: 2 }
/** Of the page. */
const COLORS = 8
const MEBIBYTE = 1024 * 1024
const LONGEST_GAP_SECONDS = 2
/** Values below would stretch the scale for nothing anybody waits for. */
const LEAST_MS = 0.05

type Part = Pick<Plot, 'band' | 'goal' | 'note'>

export function distributionPlot(
  title: string,
  curves: readonly { name: string; curve: readonly number[]; count: number }[],
): Markup {
  const shown = curves.filter(({ curve }) => curve.length === CURVE_FRACTIONS.length)
  const nines = Math.min(Math.max(Math.log10(Math.max(...shown.map(({ count }) => count), 10)), 1), 4)
  const values = shown.flatMap(({ curve }) => curve)
  return plot({
    title,
    x: ninesAxis('of operations are at most this slow', nines),
    y: logAxis('ms', Math.max(Math.min(...values), LEAST_MS), Math.max(...values)),
    lines: shown.map(({ name, curve, count }, index) => ({
      name,
      color: colorOf(index),
      ...styleOf(index, shown.length),
      points: CURVE_FRACTIONS.flatMap((fraction, at) => {
        // The tail of few values is their maximum drawn out.
        const isKnown = 1 - fraction >= 1 / count || fraction === 1
        return isKnown ? [[Math.min(fraction, 1 - 1 / Math.max(count, 2)), curve[at] as number] as const] : []
      }),
    })),
  })
}

/** How curves of whole operations are called beside those of steps. */
export const WHOLE = 'whole operation'

/** The first colour is that of the whole. */
function colorOf(index: number): number {
  return index === 0 ? 0 : ((index - 1) % 7) + 1
}

/** Colours come again from the ninth curve on, and a crowd is drawn thinner than what it is part of. */
function styleOf(index: number, count: number): Pick<Line, 'style'> {
  if (index >= COLORS) return { style: 'dashed' }
  return index >= 1 && count > 4 ? { style: 'thin' } : {}
}

export function stepCurves({ curves, latency, steps, refusals }: Result) {
  const entries = Object.entries(curves)
  // A single step is the whole.
  const isSingle = Object.keys(steps).length === 1
  const shown = entries.filter(([name]) => !isSingle || !Object.hasOwn(steps, name))
  return shown.map(([name, curve]) => ({
    name: name === 'operation' ? WHOLE : name,
    curve,
    count:
      name === 'operation' ? latency.count : (steps[name]?.count ?? refusals[name.replace('503 to ', '')]?.count ?? 0),
  }))
}

/** What came out in each second; `lines` may add what was planned. */
export function throughputPlot(title: string, result: Result, part: Part = {}, more: Line[] = []): Markup {
  const slots = perSecond(result)
  const counts = (['succeeded', 'refused', 'dropped', 'failed'] as const).filter(
    (name, index) => index === 0 || slots.some((slot) => slot[name] > 0),
  )
  const colors = { succeeded: 0, refused: 7, dropped: 3, failed: 4 }
  const names = { succeeded: 'succeeded', refused: '503 with Retry-After', dropped: 'dropped', failed: 'failed' }
  const lines: Line[] = [
    ...more,
    ...counts.map((name) => ({
      name: names[name],
      color: colors[name],
      points: slots.map((slot) => [slot.at + 0.5, slot[name]] as const),
    })),
  ]
  // A crowd that leaves at once would press everything else to the ground.
  const scaled = lines.filter(({ name }) => name !== names.dropped)
  const most = Math.max(...scaled.flatMap(({ points }) => points.map(([, y]) => y)), 1)
  const hints = slots.map((slot) => ({
    ...{ from: slot.at, to: slot.at + 1 },
    text: `second ${shortNumber(slot.at)}: ${counts.map((name) => `${slot[name]} ${names[name]}`).join(', ')}`,
  }))
  const left = Math.max(...slots.map(({ dropped }) => dropped))
  const note = left > most ? { note: `Beyond the scale: up to ${shortNumber(left)} dropped in one second.` } : {}
  return plot({ title, x: timeOf(result), y: linearAxis('per second', most), lines, hints, ...note, ...part })
}

/** What succeeded in each second of several runs, on one scale. */
export function throughputsPlot(title: string, runs: readonly { name: string; result: Result }[]): Markup {
  const lines = runs.map(({ name, result }, index) => ({
    name,
    color: index % COLORS,
    points: perSecond(result).map(({ at, succeeded }) => [at + 0.5, succeeded] as const),
  }))
  const most = Math.max(...lines.flatMap(({ points }) => points.map(([, y]) => y)), 1)
  const seconds = Math.max(...runs.map(({ result }) => plottedSeconds(result)))
  return plot({ title, x: timeAxis(seconds), y: linearAxis('per second', most), lines })
}

export function latencyPlot(title: string, result: Result, part: Part = {}): Markup {
  const { slots, slotSeconds } = result.series
  const some = slots.filter(({ at, max }) => max > 0 && at < shownSeconds(result))
  const values = some.flatMap(({ p50, p99 }) => [p50, p99])
  const line = (name: string, color: number, key: 'p50' | 'p99'): Line => ({
    ...{ name, color, gap: LONGEST_GAP_SECONDS },
    points: some.map((slot) => [slot.at + slotSeconds / 2, slot[key]] as const),
  })
  return plot({
    title,
    x: timeOf(result),
    y: logAxis('ms', Math.max(Math.min(...values), LEAST_MS), Math.max(...values)),
    lines: [line('median', 0, 'p50'), line('99 %', 1, 'p99')],
    hints: some.map((slot) => ({
      ...{ from: slot.at, to: slot.at + slotSeconds },
      text: `second ${shortNumber(slot.at)}: median ${shortNumber(slot.p50)} ms, 99 % ${shortNumber(slot.p99)} ms`,
    })),
    ...part,
  })
}

/** Undefined for a server whose processes were not found. */
export function cpuPlot(title: string, result: Result, part: Part = {}): Markup | undefined {
  const { server } = result.series
  const roles = ROLES.filter((role) => server.some(({ cores }) => cores[role] !== undefined))
  if (roles.length === 0) return undefined
  // The last sample may stand right behind the one before, and says little.
  const samples = server.slice(1).filter(({ at }, index) => at - (server[index]?.at ?? 0) > 0.5)
  const [first, last] = [samples[0], samples.at(-1)]
  const lines = roles.map((role) => ({
    ...{ name: ROLE_NAMES[role], color: ROLE_COLORS[role] },
    points: [
      ...(first ? [[0, first.cores[role] ?? 0] as const] : []),
      ...samples.map(({ at, cores }) => [at - 0.5, cores[role] ?? 0] as const),
      ...(last ? [[last.at, last.cores[role] ?? 0] as const] : []),
    ],
  }))
  const most = Math.max(...samples.map(({ cores }) => Object.values(cores).reduce((sum, value) => sum + value, 0)), 0.5)
  return plot({ title, x: timeOf(result), y: linearAxis('cores', most), lines, stacked: true, ...part })
}

export function memoryPlot(title: string, result: Result, part: Part = {}): Markup | undefined {
  const { server } = result.series
  const roles = ROLES.filter((role) => server.some(({ residentBytes }) => residentBytes[role] !== undefined))
  if (roles.length === 0) return undefined
  const lines = roles.map((role) => ({
    ...{ name: ROLE_NAMES[role], color: ROLE_COLORS[role] },
    points: server.map(({ at, residentBytes }) => [at, (residentBytes[role] ?? 0) / MEBIBYTE] as const),
  }))
  const most = Math.max(...lines.flatMap(({ points }) => points.map(([, y]) => y)), 1)
  return plot({ title, x: timeOf(result), y: linearAxis('MiB', most), lines, ...part })
}

function timeOf(result: Result): Axis {
  return timeAxis(plottedSeconds(result))
}

function plottedSeconds(result: Result): number {
  const { slots, slotSeconds } = result.series
  return Math.max(Math.min(slots.length * slotSeconds, shownSeconds(result)), 1)
}

/** What ended after the time was up would look like a fall; an overload shows its end. */
function shownSeconds({ seconds, series }: Result): number {
  return series.slotSeconds < 1 ? Number.POSITIVE_INFINITY : Math.max(Math.floor(seconds + 0.01), 1)
}

/** Slots of less than a second are summed up to seconds. */
function perSecond(result: Result): Omit<SeriesSlot, 'p50' | 'p99' | 'max'>[] {
  const { slots, slotSeconds } = result.series
  const each = Math.max(Math.round(1 / slotSeconds), 1)
  // The rest of a second at the end would look like a fall.
  const length = Math.min(Math.max(Math.floor(slots.length / each), 1), shownSeconds(result))
  return Array.from({ length }, (_, index) => {
    const part = slots.slice(index * each, (index + 1) * each)
    const sum = (name: 'succeeded' | 'failed' | 'refused' | 'dropped') =>
      part.reduce((total, slot) => total + slot[name], 0)
    return {
      at: part[0]?.at ?? 0,
      ...{ succeeded: sum('succeeded'), failed: sum('failed'), refused: sum('refused'), dropped: sum('dropped') },
    }
  })
}
