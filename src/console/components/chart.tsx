/**
 * A chart with a sentence that says what it shows, and the same figures as a table: a canvas says
 * nothing to a screen reader.
 */

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { countText, instantIn } from '../format.ts'
import { instantText, useTheme, useZone, zoneName } from '../preferences.ts'
import type { Loaded } from '../use-api.ts'
import { Ready } from './basics.tsx'
import { Table } from './table.tsx'

interface ChartProps extends PlotData {
  title: string
  /** One sentence with the figures that matter. */
  summary: string
  isEstimate?: boolean
  /** The list of what is counted at a time, in seconds. */
  listOf?: ((seconds: number) => string) | undefined
}

export function Chart({ title, summary, isEstimate = false, listOf, ...data }: ChartProps) {
  const [asTable, setAsTable] = useState(false)
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <button type="button" class="small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? 'Show as chart' : 'Show as table'}
        </button>
      </figcaption>
      <p>{summary}</p>
      {asTable ? <Figures {...{ title, data, isEstimate, listOf }} /> : <Plot data={data} />}
    </figure>
  )
}

/** Shows the data of a chart, or why they are missing. */
export const ChartFrame = <T,>(props: {
  title: string
  loaded: Loaded<T>
  children: (data: T) => ComponentChildren
}) =>
  props.loaded.data === undefined ? (
    <figure class="chart">
      <figcaption>
        <h2>{props.title}</h2>
      </figcaption>
      <Ready loaded={props.loaded}>{props.children}</Ready>
    </figure>
  ) : (
    <div>
      <Ready loaded={props.loaded}>{props.children}</Ready>
    </div>
  )

/** The plot says nothing to a screen reader: the figures are beside it. */
export function Plot({ data }: { data: PlotData }) {
  const place = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const zone = useZone()
  const key = JSON.stringify(data)
  useEffect(() => (place.current ? drawPlot(place.current, data) : undefined), [key, theme, zone])
  // The canvas could not become smaller with the window otherwise.
  return <div class="plot" ref={place} aria-hidden="true" style={{ contain: 'inline-size' }} />
}

interface FiguresProps extends Pick<ChartProps, 'title' | 'listOf'> {
  data: PlotData
  isEstimate: boolean
}

function Figures({ title, data, isEstimate, listOf }: FiguresProps) {
  const { at, series, byDay } = data
  const text = (seconds: number) =>
    byDay ? instantIn('utc', seconds * 1000).slice(0, 10) : instantText(seconds * 1000)
  return (
    <Table
      caption={title}
      rows={at.map((seconds, index) => ({ seconds, index }))}
      rowKey={({ seconds }) => seconds}
      columns={[
        { head: byDay ? 'Day (UTC)' : 'Time', cell: ({ seconds }) => text(seconds) },
        ...series.map(({ label, values }) => ({
          head: label,
          kind: 'number' as const,
          cell: ({ seconds, index }: { seconds: number; index: number }) => {
            const count = countText(values[index] ?? 0, isEstimate)
            return listOf ? <a href={listOf(seconds)}>{count}</a> : count
          },
        })),
      ]}
    />
  )
}

interface Series {
  label: string
  /** A custom property of styles.css, such as `--series-1`. */
  color: string
  values: readonly (number | null)[]
}

interface PlotData {
  /** Seconds since 1970. */
  at: readonly number[]
  series: readonly Series[]
  /** The points are days, and hours say nothing. */
  byDay?: boolean
  /** Names of the points, when `at` counts from 0 and is no time. */
  names?: readonly string[]
  /** Bars are drawn upon each other, the first series below. */
  isStacked?: boolean
}

const HEIGHT = 180
const DAY_SECONDS = 86_400

/** Draws bars on a canvas by uPlot. @returns a function that removes it; its width follows its parent */
function drawPlot(parent: HTMLElement, data: PlotData): () => void {
  const { at, byDay, names, isStacked } = data
  const series = isStacked ? stacked(data.series) : data.series
  const ink = resolved(parent, '--quiet')
  const axis = { stroke: ink, grid: { stroke: resolved(parent, '--line'), width: 1 }, ticks: { show: false } }
  const step = (at[1] ?? DAY_SECONDS) - (at[0] ?? 0)
  // A bar without height would be drawn as a line.
  const drawn = (value: number | null) => (value === 0 ? null : value)
  const bars = uPlot.paths.bars?.({ size: [0.7, 40] })
  const plot = new uPlot(
    {
      width: Math.max(200, parent.clientWidth),
      height: HEIGHT,
      legend: { show: series.length > 1 && !isStacked },
      cursor: { drag: { x: false, y: false } },
      scales: {
        // Bars of the first and last time are whole.
        x: {
          time: names === undefined,
          range: (_, min, max) => [min - step / 2, max + step / 2],
        },
        y: { range: (_, _min, max) => [0, Math.max(1, (max ?? 0) * 1.1)] },
      },
      // Days are counted in UTC by the service.
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), byDay ? 'Etc/UTC' : zoneName()),
      axes: [
        {
          ...axis,
          ...(names && { splits: () => [...at] }),
          values: (_, ticks) => ticks.map((tick) => names?.[tick] ?? tickText(tick, byDay)),
        },
        { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6] },
      ],
      series: [
        {},
        ...series.map(({ label, color }) => ({
          label,
          stroke: resolved(parent, color),
          width: 2,
          points: { show: false },
          fill: resolved(parent, color),
          ...(bars && { paths: bars }),
        })),
      ],
    },
    [[...at], ...series.map(({ values }) => values.map(drawn))] as uPlot.AlignedData,
    parent,
  )
  const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(200, parent.clientWidth), height: HEIGHT }))
  observer.observe(parent)
  return () => {
    observer.disconnect()
    plot.destroy()
  }
}

/** Sums the series from below. The highest sum comes first, and each lower one is drawn over it. */
function stacked(series: readonly Series[]): Series[] {
  const sums: Series[] = []
  for (const one of series) {
    const below = sums.at(-1)?.values ?? []
    sums.push({ ...one, values: one.values.map((value, index) => (value ?? 0) + (below[index] ?? 0)) })
  }
  return sums.reverse()
}

/** `11-23`, or the time of the day. */
function tickText(seconds: number, byDay: boolean | undefined): string {
  const text = byDay ? instantIn('utc', seconds * 1000) : instantText(seconds * 1000)
  return byDay || text.endsWith(' 00:00') ? text.slice(5, 10) : text.slice(11)
}

/** Reads a custom property for the canvas, for which `light-dark()` has to be decided. */
function resolved(parent: HTMLElement, name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${name})`
  parent.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
