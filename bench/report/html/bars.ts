/** Rows of bars as a list, whose text keeps its size at every width, and rows of ratios with their range as inline SVG. */

import { logAxis, shortNumber } from './axes.ts'
import { element, type Markup, text } from './markup.ts'
import { figure, WIDTH } from './plot.ts'

/** Of a row of ratios: its words, and its line below them. */
const ROW = 44
/** Room for half a label at both ends of the scale. */
const MARGIN = 18

export interface BarRow {
  name: string
  parts: readonly { name: string; color: number; value: number }[]
}

/** Horizontal bars of parts that add up, all on one scale from zero. */
export function stackedBars(title: string, unit: string, rows: readonly BarRow[], note?: string): Markup {
  const totalOf = ({ parts }: BarRow) => parts.reduce((sum, { value }) => sum + value, 0)
  const most = Math.max(...rows.map(totalOf), Number.MIN_VALUE)
  const items = rows.map((row) => {
    const bars = row.parts.map(({ name, color, value }) => {
      const words = `${name}: ${shortNumber(value)} ${unit}`.trim()
      return element('i', { class: `bar c${color}`, style: `width:${round((100 * value) / most)}%`, title: words })
    })
    const total = element('b', {}, text(shortNumber(totalOf(row))))
    return element('li', {}, element('span', {}, text(row.name)), element('span', { class: 'track' }, bars, total))
  })
  const names = new Map(rows.flatMap(({ parts }) => parts.map(({ name, color }) => [name, { name, color }] as const)))
  return figure(title, [...names.values()], element('ul', { class: 'bars' }, items), note)
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
  const xOf = (value: number) => round(MARGIN + axis.place(value) * (WIDTH - 2 * MARGIN))
  const height = rows.length * ROW
  const ticks = axis.ticks.flatMap(({ at, label }) => [
    element('line', { class: at === 1 ? 'axis' : 'grid', x1: xOf(at), x2: xOf(at), y1: 0, y2: height }),
    element('text', { class: 'tick', x: xOf(at), y: height + 16, 'text-anchor': 'middle' }, text(label)),
  ])
  const shapes = rows.flatMap(({ name, median, lowest, highest, color }, index) => {
    const [words, middle] = [index * ROW + 17, index * ROW + 31]
    const range = lowest === highest ? '' : ` (${shortNumber(lowest)}–${shortNumber(highest)})`
    const value = { class: 'value', x: WIDTH, y: words, 'text-anchor': 'end' }
    return [
      element('text', { class: 'row-name', x: 0, y: words }, text(name)),
      element('text', value, text(`${shortNumber(median)}${range}`)),
      element('line', { class: `whisker c${color}`, x1: xOf(lowest), x2: xOf(highest), y1: middle, y2: middle }),
      element('circle', { class: `dot c${color}`, cx: xOf(median), cy: middle, r: 5 }),
    ]
  })
  const canvas = { viewBox: `0 0 ${WIDTH} ${height + 24}`, role: 'img', 'aria-label': title }
  return figure(title, [], element('svg', canvas, [...ticks, ...shapes]), note)
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
