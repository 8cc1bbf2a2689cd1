import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { flagsIn, serverFlags } from '../../../bench/compare/server.ts'
import { compareRounds, isBeyondSpread, median } from '../../../bench/compare/summary.ts'
import { FLAGS, parseOptions } from '../../../bench/options.ts'
import { renderComparison } from '../../../bench/report/comparison-text.ts'
import type { Result } from '../../../bench/report/result.ts'

/** CPU in microseconds per operation, floor in microseconds. */
interface Run {
  perSecond: number
  p50?: number
  service?: number
  signer?: number
  floor?: number
  failures?: Result['failures']
}

function aResult({ perSecond, p50 = 1, service, signer, floor, failures = [] }: Run): Result {
  const serverTotal = service === undefined ? undefined : service + (signer ?? 0)
  const costs = { jwsVerification: 0, csrVerification: 0, signature: 0 }
  return {
    ...{ scenario: 'full-flow', directory: '', challenge: 'http-01', startedAt: '', clients: 4, processes: 1 },
    ...{ accounts: 4, warmupSeconds: 0, signing: 'precomputed', node: '', processor: '', seconds: 2, succeeded: 1 },
    ...{ failed: 0, steps: {}, failures, certificatesChecked: 0, checksPassed: true, signedRequests: 0 },
    ...{ badNonceRetries: 0, sentBytes: 0, receivedBytes: 0, perSecond },
    latency: { count: 1, mean: 1, p50, p90: 1, p95: 1, p99: 2, max: 2 },
    cpu: {
      server: { ...(service !== undefined && { service }), ...(signer !== undefined && { signer }) },
      ...{ serverTotal, generator: 0, responder: 0 },
    },
    floor:
      floor === undefined
        ? undefined
        : { before: costs, after: costs, micros: floor, serverRatio: (serverTotal ?? 0) / floor },
  }
}

const compare = (...rounds: [a: Run, b: Run][]) =>
  compareRounds(
    'full-flow',
    rounds.map(([a, b]) => ({ a: aResult(a), b: aResult(b) })),
  )

describe('the rounds of a comparison', () => {
  test('give ratios within each round, so that what drifts between rounds cancels', () => {
    const { figures } = compare(
      [{ perSecond: 100 }, { perSecond: 110 }],
      [{ perSecond: 50 }, { perSecond: 60 }],
      [{ perSecond: 200 }, { perSecond: 210 }],
    )
    assert.deepEqual(figures.perSecond, { a: 100, b: 110, ratio: 1.1, lowest: 1.05, highest: 1.2 })
  })

  test('count CPU in floors of the minute it was used in', () => {
    // The second run met a clock half as fast: twice the microseconds, the same work.
    const slow = { perSecond: 1, service: 2000, signer: 200, floor: 1000 }
    const { figures } = compare([{ perSecond: 1, service: 1000, signer: 100, floor: 500 }, slow])
    assert.equal(figures.serviceMicros?.ratio, 2)
    assert.deepEqual([figures.serviceFloors?.a, figures.serviceFloors?.b, figures.serviceFloors?.ratio], [2, 2, 1])
    assert.equal(figures.signerFloors?.ratio, 1)
    assert.equal(figures.serverFloors?.ratio, 1)
  })

  test('leave out what a side does not have, or has nothing of', () => {
    const { figures } = compare([
      { perSecond: 1, service: 5, signer: 0 },
      { perSecond: 1, service: 5, signer: 1 },
    ])
    assert.deepEqual(Object.keys(figures), ['perSecond', 'p50Ms', 'p99Ms', 'serviceMicros', 'serverMicros'])
  })

  test('say that A and B differ only when every one of several does', () => {
    const [more, less] = [{ perSecond: 2 }, { perSecond: 1 }] as const
    const differs = (...rounds: [Run, Run][]) => {
      const compared = compare(...rounds)
      return compared.figures.perSecond && isBeyondSpread(compared, compared.figures.perSecond)
    }
    assert.equal(differs([more, less], [more, less]), true)
    assert.equal(differs([more, less], [less, more]), false)
    assert.equal(differs([more, less]), false, 'one round has no spread')
  })

  test('have a median between the middle two', () => {
    assert.equal(median([4, 1, 3, 2]), 2.5)
    assert.equal(median([9, 1, 3]), 3)
  })

  test('read as a table that tells how A stands to B', () => {
    const failures = [{ kind: 'timeout', count: 2, example: 'no answer' }]
    const compared = compare([{ perSecond: 100 }, { perSecond: 80, failures }], [{ perSecond: 100 }, { perSecond: 80 }])
    const [a, b] = [
      { name: 'this tree (aaaaaaa)', commit: 'a' },
      { name: 'v1 (bbbbbbb)', commit: 'b' },
    ]
    const text = renderComparison({ a, b, scenarios: [compared, compareRounds('nonce', [])] })
    assert.match(text, /^A {2}this tree \(aaaaaaa\)\nB {2}v1 \(bbbbbbb\)$/m)
    assert.match(text, /^per second +100 +80\.0 +0\.80 +0\.80–0\.80 +25 % higher$/m)
    assert.match(text, /^B: 2 failed, such as timeout: no answer$/m)
    assert.match(text, /^nonce: no whole round$/m)
  })
})

describe('the command line of a build', () => {
  const help =
    '  Options\n    --data-dir    With --dev: where\n    --port    Port (default 8443)\n    -h, --help    This\n'

  test('is read from its help', () => {
    assert.deepEqual([...flagsIn(help)], ['data-dir', 'dev', 'port', 'help'])
  })

  test('gets what has a value, and nothing that the build does not know', () => {
    assert.deepEqual(serverFlags({ port: 1, workers: undefined }, flagsIn(help), 'v1'), ['--port', '1'])
    assert.throws(() => serverFlags({ workers: 2 }, flagsIn(help), 'v1'), /v1 does not know --workers/)
  })
})

describe('options of a comparison', () => {
  const defaults = Object.fromEntries(FLAGS.flatMap(([name, , value]) => (value === undefined ? [] : [[name, value]])))
  const options = (given: Record<string, unknown>) => parseOptions({ ...defaults, ...given })

  test('stand apart from those of a server that runs already', () => {
    assert.deepEqual(options({ compare: 'v1', 'server-cpus': '0-2' }).compare, {
      ...{ ref: 'v1', rounds: 3, workers: undefined, serverCpus: '0-2' },
    })
    assert.equal(options({}).compare, undefined)
    for (const given of [{ directory: 'https://localhost/x' }, { 'server-pid': 1 }, { insecure: true }]) {
      assert.throws(() => options({ compare: 'v1', ...given }), /--compare starts its services itself/)
    }
    assert.throws(() => options({ workers: 2 }), /--workers and --server-cpus are for/)
  })

  test('name a commit and processors', () => {
    assert.throws(() => options({ compare: true }), /--compare/)
    assert.throws(() => options({ compare: '' }), /--compare: name a commit/)
    assert.throws(() => options({ compare: 'v1', 'server-cpus': '0;ls' }), /--server-cpus 0;ls: must look like/)
    assert.throws(() => options({ compare: 'v1', rounds: 0 }), /--rounds 0/)
  })
})
