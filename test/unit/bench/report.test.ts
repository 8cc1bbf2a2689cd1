import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { beginDocument, renderHtml } from '../../../bench/report/document.ts'
import { summarize } from '../../../bench/report/summary.ts'
import { renderSummary, renderText } from '../../../bench/report/text.ts'
import { isSteady } from '../../../bench/run.ts'
import { aResult } from '../../support/bench-result.ts'

const SERVER = { name: 'a </script><b>server</b>', commit: undefined, note: '' }

describe('the warm-up', () => {
  test('is steady when both rate and CPU per operation differ by at most 5 percent', () => {
    const cases: [rates: [number, number], micros: [number | undefined, number | undefined], isSteady: boolean][] = [
      [[100, 105], [4300, 4100], true],
      [[105, 100], [4100, 4300], true],
      [[100, 106], [4300, 4300], false],
      [[100, 100], [6600, 5900], false],
      // A server elsewhere has no CPU; one that answers nothing does not warm up.
      [[100, 100], [undefined, undefined], true],
      [[0, 0], [undefined, undefined], true],
      [[0, 100], [undefined, 4300], false],
    ]
    for (const [[first, second], [before, now], expected] of cases) {
      const judged = isSteady({ perSecond: first, cpuMicros: before }, { perSecond: second, cpuMicros: now })
      assert.equal(judged, expected, `${first}, ${second}/s; ${before}, ${now} µs`)
    }
  })

  test('is told in a result when the server was not steady, for one server and among several', () => {
    const steady = aResult({ perSecond: 1 })
    const cold = { ...steady, warmup: { seconds: 30, isSteady: false } }
    const warm = { ...steady, warmup: { seconds: 10, isSteady: true } }
    assert.match(renderText(cold), /^after 30 s of warm-up the rate or the CPU per operation still changed/m)
    assert.doesNotMatch(renderText(warm) + renderText(steady), /warm-up/)
    const rounds = [summarize('full-flow', 'closed loop', [[warm, cold]])]
    assert.match(renderSummary([SERVER, SERVER], rounds), /^B: after 30 s of warm-up/m)
  })
})

test('the report is one page with its data in it, whatever names say', () => {
  const measurements = [summarize('full-flow', 'closed loop', [[aResult({ perSecond: 1 })]])]
  const page = renderHtml(beginDocument(['--start'])({ servers: [SERVER], measurements }, undefined))
  const [, data = ''] = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(page) ?? []
  assert.deepEqual(JSON.parse(data).servers[0].name, SERVER.name)
  assert.match(page, /uPlot/)
  assert.doesNotMatch(page, /\/\*\{|"\{data\}"|(src|href)=/)
})
