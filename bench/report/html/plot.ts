/** Plots as inline SVG: lines, stacked areas, bars. Colours come from the page, so that they fit its light and its dark form. */

import type { Axis } from './axes.ts'
import { element, type Markup, raw, text } from './markup.ts'

export interface Line {
  name: string
  /** Number of the colour, from 0. */
  color: number
  points: readonly (readonly [x: number, y: number])[]
  style?: 'dashed' | 'thin'
  /** Points further apart than this are not joined: in between there was nothing. */
  gap?: number
}

export interface Plot {
  title: string
  x: Axis
  y: Axis
  /** Lines, or areas on top of each other in this order; areas have the same x values. */
  lines: readonly Line[]
  stacked?: true
  /** A part of the x axis to be set off. */
  band?: { from: number; to: number; name: string }
  /** A level to be met. */
  goal?: { at: number; name: string }
  /** What a pointer that rests on a part of the plot is told. */
  hints?: readonly { from: number; to: number; text: string }[]
  note?: string
}

/** Few measured points are shown as such. */
const MOST_DOTS = 12

/** About as many pixels as a plot has where two stand beside each other, so that letters have their size. */
export const WIDTH = 500
const HEIGHT = 260
const LEFT = 56
const RIGHT = 18
const TOP = 30
const BOTTOM = 44
const [INNER_WIDTH, INNER_HEIGHT] = [WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM]

export function plot(spec: Plot): Markup {
  const shownLines = spec.lines.filter(({ points }) => points.length > 0)
  const lines = spec.stacked ? stack(shownLines) : shownLines
  const svg = element(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': spec.title },
    spec.band ? bandOf(spec.band, spec.x) : [],
    grid(spec),
    // Areas from the top of the stack to its bottom, so that each covers the foot of the one above.
    spec.stacked ? lines.toReversed().map((line) => area(line, spec)) : [],
    spec.stacked ? [] : lines.map((line) => path(line, spec)),
    spec.goal ? goalLine(spec.goal, spec.y) : [],
    (spec.hints ?? []).map((hint) => hintArea(hint, spec.x)),
  )
  return figure(spec.title, shownLines, svg, spec.note)
}

export function figure(
  title: string,
  keys: readonly { name: string; color: number; style?: string }[],
  svg: Markup,
  note?: string,
) {
  const legend = keys.map(({ name, color, style }) =>
    element('li', {}, element('i', { class: `key c${color}${style === 'dashed' ? ' dashed' : ''}` }), text(name)),
  )
  return element(
    'figure',
    {},
    element('figcaption', {}, text(title)),
    keys.length > 1 ? element('ul', { class: 'legend' }, legend) : raw(''),
    svg,
    note === undefined ? raw('') : element('p', { class: 'note' }, text(note)),
  )
}

function grid({ x, y }: Plot): Markup[] {
  const rows = y.ticks.flatMap(({ at, label }) => {
    const top = yOf(y, at)
    return [
      element('line', { class: 'grid', x1: LEFT, x2: LEFT + INNER_WIDTH, y1: top, y2: top }),
      element('text', { class: 'tick', x: LEFT - 8, y: round(top + 4), 'text-anchor': 'end' }, text(label)),
    ]
  })
  const columns = x.ticks.flatMap(({ at, label }) => {
    const left = xOf(x, at)
    return [
      element('line', { class: 'mark', x1: left, x2: left, y1: TOP + INNER_HEIGHT, y2: TOP + INNER_HEIGHT + 5 }),
      element('text', { class: 'tick', x: left, y: TOP + INNER_HEIGHT + 19, 'text-anchor': 'middle' }, text(label)),
    ]
  })
  const base = TOP + INNER_HEIGHT
  return [
    ...rows,
    ...columns,
    element('line', { class: 'axis', x1: LEFT, x2: LEFT + INNER_WIDTH, y1: base, y2: base }),
    element('text', { class: 'unit', x: LEFT - 50, y: TOP - 14 }, text(y.label)),
    element('text', { class: 'unit', x: LEFT + INNER_WIDTH, y: HEIGHT - 6, 'text-anchor': 'end' }, text(x.label)),
  ]
}

function path({ points, color, style, name, gap }: Line, { x, y }: Plot): Markup {
  const isDotted = points.length === 1 || (points.length <= MOST_DOTS && style === undefined)
  const dots = isDotted ? points.map(([px, py]) => dot(color, xOf(x, px), yOf(y, py), name)) : []
  const line = element(
    'path',
    { class: `line c${color} ${style ?? ''}`.trim(), d: pathData(points, x, y, gap) },
    titleOf(name),
  )
  return raw([line, ...dots].join(''))
}

function dot(color: number, cx: number, cy: number, name: string): Markup {
  return element('circle', { class: `dot c${color}`, cx, cy, r: 3 }, titleOf(name))
}

function area({ points, color, name }: Line, { x, y }: Plot): Markup {
  const [first, last] = [points[0], points.at(-1)]
  if (!first || !last) return raw('')
  const base = TOP + INNER_HEIGHT
  const d = `${pathData(points, x, y)}L${xOf(x, last[0])} ${base}L${xOf(x, first[0])} ${base}Z`
  return element('path', { class: `area c${color}`, d }, titleOf(name))
}

function stack(lines: readonly Line[]): Line[] {
  const sums = new Map<number, number>()
  return lines.map((line) => ({
    ...line,
    points: line.points.map(([x, y]) => {
      const sum = (sums.get(x) ?? 0) + y
      sums.set(x, sum)
      return [x, sum] as const
    }),
  }))
}

function bandOf({ from, to, name }: NonNullable<Plot['band']>, x: Axis): Markup[] {
  const [left, right] = [xOf(x, from), xOf(x, to)]
  return [
    element('rect', { class: 'band', x: left, y: TOP, width: round(right - left), height: INNER_HEIGHT }),
    element(
      'text',
      { class: 'band-name', x: round((left + right) / 2), y: TOP - 8, 'text-anchor': 'middle' },
      text(name),
    ),
  ]
}

function goalLine({ at, name }: NonNullable<Plot['goal']>, y: Axis): Markup[] {
  const top = yOf(y, at)
  return [
    element('line', { class: 'goal', x1: LEFT, x2: LEFT + INNER_WIDTH, y1: top, y2: top }),
    element(
      'text',
      { class: 'goal-name', x: LEFT + INNER_WIDTH - 4, y: round(top - 5), 'text-anchor': 'end' },
      text(name),
    ),
  ]
}

function hintArea({ from, to, text: words }: { from: number; to: number; text: string }, x: Axis): Markup {
  const [left, right] = [xOf(x, from), xOf(x, to)]
  const shape = { class: 'hint', x: left, y: TOP, width: round(Math.max(right - left, 1)), height: INNER_HEIGHT }
  return element('rect', shape, element('title', {}, text(words)))
}

function titleOf(name: string): Markup {
  return element('title', {}, text(name))
}

function pathData(points: Line['points'], x: Axis, y: Axis, gap = Number.POSITIVE_INFINITY): string {
  const isJoined = (px: number, index: number) => px - (points[index - 1]?.[0] ?? Number.NEGATIVE_INFINITY) <= gap
  return points
    .map(([px, py], index) => `${index > 0 && isJoined(px, index) ? 'L' : 'M'}${xOf(x, px)} ${yOf(y, py)}`)
    .join('')
}

function xOf(axis: Axis, value: number): number {
  return round(LEFT + axis.place(value) * INNER_WIDTH)
}

function yOf(axis: Axis, value: number): number {
  return round(TOP + (1 - axis.place(value)) * INNER_HEIGHT)
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
