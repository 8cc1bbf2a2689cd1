/** The Grafana board below deploy/, and the recording rules: whether each query gives what its panel is to show, with a real Prometheus. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse } from 'yaml'
import { ROWS } from '../../src/ops/board/panels.ts'
import { helps } from '../../src/ops/board/queries.ts'
import { renderBoard } from '../../src/ops/board/render.ts'
import { each } from '../support/each.ts'
import { type ObservedService, startObservedService } from '../support/observed-service.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const file = (name: string) => path.join(ROOT, 'deploy', name)
const PATIENCE_MS = 300_000

/** What has no series until something happens that does not happen here. */
const NEEDS_MORE: Record<string, string> = {
  service_backend_circuit_open: 'another CA backend',
  service_backend_failovers_total: 'another CA backend',
  service_backend_issuances: 'another CA backend',
  service_backend_request_seconds: 'another CA backend',
  service_backend_requests_total: 'another CA backend',
  service_backend_revocations: 'another CA backend',
  service_issuances_recovered_total: 'an interrupted issuance',
  service_perspective_checks_total: 'remote perspectives',
  service_requests_shed_total: 'overload',
}

interface Board {
  uid: string
  panels: { id: number; type: string; title: string; gridPos: { x: number; y: number; w: number; h: number } }[]
  templating: { list: { name: string }[] }
}

const queries = ROWS.flatMap(({ title: row, panels }) =>
  panels.flatMap(({ title, queries }) =>
    queries.map(([expr, legend]) => ({ what: `${row}: ${title}: ${legend}`, expr })),
  ),
)

const namesIn = (expr: string) =>
  [...expr.matchAll(/\bservice_[a-z0-9_]+(?=[{])/g)].map(([name]) => name.replace(/_bucket$/, ''))

const recorded = (
  parse(readFileSync(file('prometheus-recording-rules.yml'), 'utf8')) as {
    groups: { rules: { record: string; expr: string }[] }[]
  }
).groups.flatMap(({ rules }) => rules)

describe('the Grafana board', () => {
  const board = JSON.parse(renderBoard()) as Board

  test('names only metrics of the table, and rules that are recorded', () => {
    const records = new Set(recorded.map(({ record }) => record))
    for (const { what, expr } of queries) {
      const record = /^(job:[^{]+)\{/.exec(expr)?.[1]
      if (record) assert.ok(records.has(record), what)
      else
        assert.deepEqual([namesIn(expr).length > 0, namesIn(expr).filter((name) => !helps.has(name))], [true, []], what)
    }
  })

  test('shows every metric of the table', () => {
    const shown = new Set(queries.flatMap(({ expr }) => namesIn(expr)))
    assert.deepEqual(
      [...helps.keys()].filter((name) => !shown.has(name)),
      [],
    )
  })

  test('has panels with numbers of their own that do not lie on each other', () => {
    const { panels } = board
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    )
    assert.equal(new Set(cells).size, cells.length)
  })

  test('lets its reader choose data source, job and instance', () => {
    assert.deepEqual(each(board.templating.list, 'name'), ['datasource', 'job', 'instance'])
  })
})

describe('the recording rules', requireCommand('promtool'), () => {
  test('are valid, and make what their examples say', async () => {
    await mustRun('promtool', ['check', 'rules', file('prometheus-recording-rules.yml')])
    await mustRun('promtool', ['test', 'rules', file('prometheus-recording-rules.test.yml')])
  })

  test('name only metrics of the table, and have an example each', () => {
    const examples = readFileSync(file('prometheus-recording-rules.test.yml'), 'utf8')
    for (const { record, expr } of recorded) {
      const named = [...expr.matchAll(/(?<!:)\bservice_[a-z0-9_]+/g)].map(([name]) => name.replace(/_bucket$/, ''))
      assert.deepEqual([named.length > 0, named.filter((name) => !helps.has(name))], [true, []], record)
      assert.ok(examples.includes(`expr: ${record}`) || examples.includes(`(${record},`), record)
    }
  })
})

describe('the board on a service under load', requireCommand('promtool'), () => {
  let observed: ObservedService
  before(async () => {
    observed = await startObservedService()
  })
  after(() => observed?.dispose())

  const hasResult = async (expr: string) =>
    (await observed.ask(expr, 60, 2)).some(({ values }) => values.some(([, value]) => Number.isFinite(Number(value))))

  for (const { what, expr } of queries) {
    const needs = namesIn(expr).map((name) => NEEDS_MORE[name])[0]
    if (needs === undefined)
      test(`shows ${what}`, () => until(what, () => hasResult(expr), PATIENCE_MS).then(() => undefined))
    else
      test(`reads ${what}, which needs ${needs}`, async () => {
        assert.equal(await hasResult(expr), false, 'it has a result: NEEDS_MORE need not name it')
      })
  }
})
