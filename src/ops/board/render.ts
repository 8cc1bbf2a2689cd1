/** The board as Grafana imports it: the classic JSON model. */

import { type Panel, ROWS } from './panels.ts'
import { helps } from './queries.ts'

/** Grafana 11 has it; a later one migrates the board when it loads it. */
const SCHEMA_VERSION = 39
/** A line of the board has 24 columns. */
const COLUMNS = 24
const NUMBER = { w: 4, h: 4 }
const CHART = { w: 8, h: 8 }
const DATASOURCE = { type: 'prometheus', uid: '$datasource' }

export function renderBoard(): string {
  const board = {
    uid: 'chancery',
    title: 'Chancery',
    description: 'The ACME service chancery. Made from its table of metrics by `npm run docs`.',
    tags: ['chancery'],
    schemaVersion: SCHEMA_VERSION,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    templating: { list: variables() },
    annotations: { list: [] },
    links: [],
    panels: layOut(),
  }
  return `${JSON.stringify(board, null, 2)}\n`
}

function variables(): object[] {
  const query = (name: string, expr: string) => ({
    name,
    type: 'query',
    datasource: DATASOURCE,
    definition: expr,
    query: { query: expr, refId: name },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    current: { text: ['All'], value: ['$__all'] },
  })
  return [
    { name: 'datasource', label: 'data source', type: 'datasource', query: 'prometheus' },
    query('job', 'label_values(service_ready, job)'),
    query('instance', 'label_values(service_ready{job=~"$job"}, instance)'),
  ]
}

/** From left to right and from top to bottom; each row begins a line of its own. */
function layOut(): object[] {
  let y = 0
  let id = 0
  return ROWS.flatMap(({ title, panels }) => {
    const head = {
      id: ++id,
      type: 'row',
      title,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y: y++, w: COLUMNS, h: 1 },
    }
    const { w, h } = panels[0]?.isNumber ? NUMBER : CHART
    const perLine = COLUMNS / w
    const placed = panels.map((panel, i) => {
      const gridPos = { x: (i % perLine) * w, y: y + Math.floor(i / perLine) * h, w, h }
      return { id: ++id, ...rendered(panel), gridPos }
    })
    y += Math.ceil(panels.length / perLine) * h
    return [head, ...placed]
  })
}

function rendered({ title, unit, isNumber, queries }: Panel) {
  return {
    type: isNumber ? 'stat' : 'timeseries',
    title,
    description: describe(queries.map(([expr]) => expr)),
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit, ...(!isNumber && { min: 0 }) }, overrides: [] },
    options: isNumber
      ? { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: 'none', graphMode: 'none' }
      : {
          legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
          tooltip: { mode: 'multi', sort: 'desc' },
        },
    targets: queries.map(([expr, legendFormat], i) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + i),
      datasource: DATASOURCE,
      expr,
      legendFormat,
      range: !isNumber,
      instant: isNumber === true,
    })),
  }
}

/** The help of the metrics that a panel shows. */
function describe(exprs: readonly string[]): string {
  const names = exprs.flatMap((expr) => expr.match(/\bservice_[a-z0-9_]+/g) ?? [])
  return [...new Set(names.map((name) => helps.get(name.replace(/_bucket$/, ''))))].filter(Boolean).join(' ')
}
