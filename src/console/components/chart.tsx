/**
 * A chart with a sentence that says what it shows, and the same figures as a table: a canvas says
 * nothing to a screen reader.
 */

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Loaded } from '../api.ts'
import { countText, instantText } from '../format.ts'
import { useTheme } from '../theme.ts'
import { Ready } from './basics.tsx'
import { drawPlot, type PlotData } from './plot.ts'
import { Table } from './table.tsx'

interface ChartProps extends PlotData {
  title: string
  /** One sentence with the figures that matter. */
  summary: string
  isEstimate?: boolean
}

export function Chart({ title, summary, isEstimate = false, ...data }: ChartProps) {
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
      {asTable ? <Figures title={title} data={data} isEstimate={isEstimate} /> : <Plot data={data} />}
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

/** Says nothing to a screen reader: the figures stand beside it. */
export function Plot({ data }: { data: PlotData }) {
  const place = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const key = JSON.stringify(data)
  useEffect(() => (place.current ? drawPlot(place.current, data) : undefined), [key, theme])
  // Else a window that becomes narrower could not make the canvas smaller.
  return <div class="plot" ref={place} aria-hidden="true" style={{ contain: 'inline-size' }} />
}

function Figures({ title, data, isEstimate }: { title: string; data: PlotData; isEstimate: boolean }) {
  const { at, series, byDay } = data
  const text = (seconds: number) => instantText(seconds * 1000).slice(0, byDay ? 10 : 16)
  return (
    <Table
      caption={title}
      rows={at.map((seconds, index) => ({ seconds, index }))}
      rowKey={({ seconds }) => seconds}
      columns={[
        { head: byDay ? 'Day' : 'Time', cell: ({ seconds }) => text(seconds) },
        ...series.map(({ label, values }) => ({
          head: label,
          kind: 'number' as const,
          cell: ({ index }: { index: number }) => countText(values[index] ?? 0, isEstimate),
        })),
      ]}
    />
  )
}
