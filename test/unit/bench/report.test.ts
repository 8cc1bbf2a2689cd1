import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { beginDocument, renderHtml } from '../../../bench/report/document.ts'
import { summarize } from '../../../bench/report/summary.ts'
import { renderText } from '../../../bench/report/text.ts'
import { aResult } from '../../support/bench-result.ts'

const SERVER = { name: 'a </script><b>server</b>', commit: undefined, note: '', isOurs: true }

describe('a result', () => {
  test('reads as CPU by role and as times of the crypto floor', () => {
    const text = renderText(aResult({ perSecond: 100, service: 3000, signer: 300, floor: 1000 }))
    assert.match(text, /^ {2}service +3000\n {2}signer +300\n {2}server in all +3300$/m)
    assert.match(text, /^ {2}crypto floor +1000 {3}server = 3\.30 × floor$/m)
  })

  test('says when the generator may have been the limit, and what failed', () => {
    const failures = [{ kind: 'timeout', count: 2, example: 'no answer' }]
    const text = renderText({ ...aResult({ perSecond: 1, failures }), generatorCores: 0.97 })
    assert.match(text, /generator process had 97 % of a core in use: it may be what limits/)
    assert.match(text, /^failed: 2 × timeout, such as: no answer$/m)
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
