/** Rows of bars and of ratios with their range, as inline SVG. */

import { logAxis, shortNumber } from './axes.ts'
import { element, type Markup, text } from './markup.ts'
import { figure } from './plot.ts'

const WIDTH = 720
const NAME_WIDTH = 200
const VALUE_WIDTH = 92
const BAR_WIDTH = WIDTH - NAME_WIDTH - VALUE_WIDTH
const ROW = 34
const THICK = 18

export interface BarRow {
  name: string
  parts: readonly { name: string; color: number; value: number }[]
}

/** Horizontal bars of parts that add up, all on one scale from zero. */
export function stackedBars(title: string, unit: string, rows: readonly BarRow[], note?: string): Markup {
  const totalOf = ({ parts }: BarRow) => parts.reduce((sum, { value }) => sum + value, 0)
  const most = Math.max(...rows.map(totalOf), Number.MIN_VALUE)
  const shapes = rows.flatMap((row, index) => {
    const top = index * ROW + (ROW - THICK) / 2
    let left = NAME_WIDTH
    const bars = row.parts.map(({ name, color, value }) => {
      const width = (value / most) * BAR_WIDTH
      const shape = { class: `bar c${color}`, x: round(left), y: top, width: round(Math.max(width, 0)), height: THICK }
      left += width
      return element('rect', shape, element('title', {}, text(`${name}: ${shortNumber(value)} ${unit}`)))
    })
    return [
      nameAt(row.name, top),
      ...bars,
      element('text', { class: 'value', x: round(left + 8), y: top + 14 }, text(shortNumber(totalOf(row)))),
    ]
  })
  const names = new Map(rows.flatMap(({ parts }) => parts.map(({ name, color }) => [name, { name, color }] as const)))
  return figure(title, [...names.values()], canvas(title, rows.length * ROW, shapes), note)
}

export interface RatioRow {
  name: string
  median: number
  lowest: number
  highest: number
  color: number
}

/** A dot for the median and a line from the lowest to the highest, on a scale where half and double are as far from 1. */
export function ratioDots(title: string, rows: readonly RatioRow[], note?: string): Markup {
  const values = rows.flatMap(({ lowest, highest }) => [lowest, highest]).filter((value) => value > 0)
  const reach = Math.max(...values.map((value) => Math.max(value, 1 / value)), 1.25)
  const axis = logAxis('', 1 / reach, reach)
  const xOf = (value: number) => round(NAME_WIDTH + axis.place(value) * BAR_WIDTH)
  const height = rows.length * ROW
  const ticks = axis.ticks.flatMap(({ at, label }) => [
    element('line', { class: at === 1 ? 'axis' : 'grid', x1: xOf(at), x2: xOf(at), y1: 0, y2: height }),
    element('text', { class: 'tick', x: xOf(at), y: height + 16, 'text-anchor': 'middle' }, text(label)),
  ])
  const shapes = rows.flatMap(({ name, median, lowest, highest, color }, index) => {
    const middle = index * ROW + ROW / 2
    const words = `${shortNumber(median)} (${shortNumber(lowest)}–${shortNumber(highest)})`
    return [
      nameAt(name, middle - THICK / 2),
      element('line', { class: `whisker c${color}`, x1: xOf(lowest), x2: xOf(highest), y1: middle, y2: middle }),
      element(
        'circle',
        { class: `dot c${color}`, cx: xOf(median), cy: middle, r: 5 },
        element('title', {}, text(words)),
      ),
      element('text', { class: 'value', x: WIDTH - VALUE_WIDTH + 12, y: middle + 5 }, text(shortNumber(median))),
    ]
  })
  return figure(title, [], canvas(title, height + 24, [...ticks, ...shapes]), note)
}

function nameAt(name: string, top: number): Markup {
  return element(
    'text',
    { class: 'row-name', x: NAME_WIDTH - 12, y: top + 14, 'text-anchor': 'end' },
    text(shortened(name)),
  )
}

function shortened(name: string): string {
  return name.length > 30 ? `${name.slice(0, 29)}…` : name
}

function canvas(title: string, height: number, shapes: Markup[]): Markup {
  return element('svg', { viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': title }, shapes)
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
