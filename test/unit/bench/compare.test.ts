import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseOptions } from '../../../bench/options/options.ts'
import { renderSummary } from '../../../bench/report/comparison-text.ts'
import { isBeyondSpread, median, summarize, type Turn } from '../../../bench/report/summary.ts'
import { flagsIn, serverFlags } from '../../../bench/servers/chancery.ts'
import { aResult, type Run } from '../../support/bench-result.ts'

const compare = (...rounds: Run[][]) =>
  summarize(
    'full-flow',
    'closed loop',
    rounds.map((turns) => turns.map(aResult)),
  )

const BROKEN: Turn = { broken: 'it does not answer' }
const A = { name: 'this tree (aaaaaaa)', commit: 'a', note: '', isOurs: true }
const B = { name: 'v1 (bbbbbbb)', commit: 'b', note: 'keeps nothing', isOurs: false }

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
    assert.deepEqual(
      figures.serviceFloors?.servers.map((spread) => spread?.median),
      [2, 2],
    )
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

  test('have a median between the middle two', () => {
    assert.equal(median([4, 1, 3, 2]), 2.5)
    assert.equal(median([9, 1, 3]), 3)
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

  test('of three servers read as a table for each beside the first', () => {
    const measured = compare(
      [{ perSecond: 100 }, { perSecond: 50 }, { perSecond: 10 }],
      [{ perSecond: 100 }, { perSecond: 50 }, { perSecond: 10 }],
    )
    const text = renderSummary([A, B, { ...B, name: 'third' }], [measured])
    assert.match(text, /A +B +B\/A[\s\S]*2\.0 times[\s\S]*A +C +C\/A[\s\S]*10\.0 times/)
  })

  test('of one server read as medians and their range', () => {
    const text = renderSummary([A], [compare([{ perSecond: 90 }], [{ perSecond: 100 }], [{ perSecond: 120 }])])
    assert.match(text, /^per second +100 +90\.0–120$/m)
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
    assert.deepEqual(serverFlags({ port: true }, flagsIn(help), 'v1'), ['--port'])
    assert.throws(() => serverFlags({ workers: 2 }, flagsIn(help), 'v1'), /v1 does not know --workers/)
  })
})

describe('options of servers', () => {
  test('stand apart from those of a server that runs already', () => {
    const { servers } = parseOptions({ compare: 'v1', 'server-cpus': '0-2' })
    assert.deepEqual(servers, {
      ...{ start: true, compare: 'v1', beside: [], against: [], repeat: 3, workers: undefined, serverCpus: '0-2' },
    })
    assert.deepEqual([parseOptions({}).servers.start, parseOptions({}).servers.repeat], [false, 1])
    for (const given of [{ directory: 'https://localhost/x' }, { 'server-pid': 1 }, { insecure: true }]) {
      assert.throws(() => parseOptions({ compare: 'v1', ...given }), /--compare and --start start services themselves/)
    }
    assert.throws(() => parseOptions({ workers: 2 }), /--workers and --server-cpus are for/)
  })

  test('name a commit and processors', () => {
    assert.throws(() => parseOptions({ compare: true }), /--compare/)
    assert.throws(() => parseOptions({ compare: '' }), /--compare: name a commit/)
    assert.throws(() => parseOptions({ compare: 'v1', 'server-cpus': '0;ls' }), /--server-cpus 0;ls: must look like/)
    assert.throws(() => parseOptions({ compare: 'v1', repeat: 0 }), /--repeat 0/)
  })

  test('give each server beside this one its clients', () => {
    assert.deepEqual(parseOptions({ beside: 'pebble=8,caddy' }).servers.beside, [
      { name: 'pebble', clients: 8 },
      { name: 'caddy', clients: undefined },
    ])
    assert.throws(() => parseOptions({ beside: 'boulder' }), /--beside boulder: not one of pebble, caddy/)
  })

  test('describe another server that runs, once or several times', () => {
    const text =
      'https://localhost:14000/dir?a=1,2,name=Pebble,clients=4,http01=127.0.0.3:80,insecure,pid=0,postgres-pid=7'
    const [first, second] = parseOptions({ against: [text, 'http://127.0.0.1:1/d'] }).servers.against
    assert.deepEqual(first, {
      ...{ name: 'Pebble', directoryUrl: 'https://localhost:14000/dir?a=1,2', clients: 4, challengeType: undefined },
      ...{
        http01: { host: '127.0.0.3', http01Port: 80 },
        caCertificates: undefined,
        insecure: true,
        pids: { service: 0, postgres: 7 },
      },
    })
    assert.equal(second?.name, '127.0.0.1:1')
    for (const wrong of ['ftp://x', 'https://x/,colour=red', 'https://x/,clients=four', 'https://x/,http01=80'])
      assert.throws(() => parseOptions({ against: wrong }), /--against/)
  })
})
