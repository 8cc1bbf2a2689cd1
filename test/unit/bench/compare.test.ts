import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isBeyondSpread, summarize, type Turn } from '../../../bench/report/summary.ts'
import { renderSummary } from '../../../bench/report/text.ts'
import { flagsIn, serverFlags } from '../../../bench/servers/chancery.ts'
import { aResult, type Run } from '../../support/bench-result.ts'

const compare = (...rounds: Run[][]) =>
  summarize(
    'full-flow',
    'closed loop',
    rounds.map((turns) => turns.map(aResult)),
  )

const BROKEN: Turn = { broken: 'it does not answer' }
const A = { name: 'this tree (aaaaaaa)', commit: 'a', note: '' }
const B = { name: 'v1 (bbbbbbb)', commit: 'b', note: 'keeps nothing' }

describe('the rounds of a comparison', () => {
  test('give ratios within each round, so that what drifts between rounds cancels', () => {
    const { figures } = compare(
      [{ perSecond: 100 }, { perSecond: 110 }],
      [{ perSecond: 50 }, { perSecond: 60 }],
      [{ perSecond: 200 }, { perSecond: 210 }],
    )
    assert.deepEqual(figures.perSecond, {
      servers: [
        { median: 100, lowest: 50, highest: 200 },
        { median: 110, lowest: 60, highest: 210 },
      ],
      ratios: [undefined, { median: 1.1, lowest: 1.05, highest: 1.2 }],
    })
  })

  test('count CPU in floors of the minute it was used in', () => {
    // The second run met a clock half as fast: twice the microseconds, the same work.
    const slow = { perSecond: 1, service: 2000, signer: 200, floor: 1000 }
    const { figures } = compare([{ perSecond: 1, service: 1000, signer: 100, floor: 500 }, slow])
    const ratioOf = (name: keyof typeof figures) => figures[name]?.ratios[1]?.median
    assert.equal(ratioOf('serviceMicros'), 2)
    const found = figures.serviceFloors?.servers.map((spread) => spread?.median)
    assert.deepEqual(found, [2, 2])
    assert.deepEqual([ratioOf('serviceFloors'), ratioOf('signerFloors'), ratioOf('serverFloors')], [1, 1, 1])
  })

  test('have no figure that no server has, and no ratio to nothing', () => {
    const { figures } = compare([
      { perSecond: 1, service: 5, signer: 0 },
      { perSecond: 1, service: 5, signer: 1 },
    ])
    const names = ['perSecond', 'p50Ms', 'p99Ms', 'serviceMicros', 'signerMicros', 'serverMicros']
    assert.deepEqual(Object.keys(figures), names)
    assert.equal(figures.signerMicros?.ratios[1], undefined)
  })

  test('go on without a server that broke in one of them', () => {
    const [a, b] = [aResult({ perSecond: 100 }), aResult({ perSecond: 50 })]
    const measured = summarize('full-flow', 'closed loop', [
      [a, b],
      [a, BROKEN],
    ])
    assert.deepEqual(measured.figures.perSecond?.ratios[1], { median: 0.5, lowest: 0.5, highest: 0.5 })
    assert.match(renderSummary([A, B], [measured]), /^B: broken in 1 of 2 rounds: it does not answer$/m)
  })

  test('say that A and B differ only when every one of several does', () => {
    const [more, less] = [{ perSecond: 2 }, { perSecond: 1 }] as const
    const differs = (...rounds: Run[][]) => {
      const compared = compare(...rounds)
      const ratio = compared.figures.perSecond?.ratios[1]
      return ratio && isBeyondSpread(compared, ratio)
    }
    assert.equal(differs([more, less], [more, less]), true)
    assert.equal(differs([more, less], [less, more]), false)
    assert.equal(differs([more, less]), false, 'one round has no spread')
  })

  test('read as a table that tells how A stands to B', () => {
    const failures = [{ kind: 'timeout', count: 2, example: 'no answer' }]
    const compared = compare([{ perSecond: 100 }, { perSecond: 80, failures }], [{ perSecond: 100 }, { perSecond: 80 }])
    const text = renderSummary([A, B], [compared, summarize('nonce', 'closed loop', [])])
    assert.match(text, /^A {2}this tree \(aaaaaaa\)\nB {2}v1 \(bbbbbbb\): keeps nothing$/m)
    assert.match(text, /^per second +100 +80\.0 +0\.80 +0\.80–0\.80 +25 % higher$/m)
    assert.match(text, /^B: 2 failed, such as timeout: no answer$/m)
    assert.match(text, /^nonce: no whole round$/m)
  })
})

describe('the command line of a build', () => {
  const help =
    '  Options\n    --data-dir    With --dev: where\n    --port    Port (default 8443)\n    -h, --help    This\n'

  test('is read from its help', () => assert.deepEqual([...flagsIn(help)], ['data-dir', 'dev', 'port', 'help']))

  test('gets what has a value, and nothing that the build does not know', () => {
    assert.deepEqual(serverFlags({ port: 1, workers: undefined }, flagsIn(help), 'v1'), ['--port', '1'])
    assert.deepEqual(serverFlags({ port: true }, flagsIn(help), 'v1'), ['--port'])
    assert.throws(() => serverFlags({ workers: 2 }, flagsIn(help), 'v1'), /v1 does not know --workers/)
  })
})
