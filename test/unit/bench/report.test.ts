import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { renderAbuse } from '../../../bench/abuse/text.ts'
import { emptyHistogram, recordValue } from '../../../bench/measure/histogram.ts'
import { reckonOverload } from '../../../bench/overload/result.ts'
import type { ScenarioProfile } from '../../../bench/profile/profile.ts'
import type { BenchDocument } from '../../../bench/report/document.ts'
import { linearAxis, logAxis, ninesAxis, shortNumber, timeAxis } from '../../../bench/report/html/axes.ts'
import { renderHtml } from '../../../bench/report/html/page.ts'
import { progressLine } from '../../../bench/report/progress.ts'
import { buildSeries, CURVE_FRACTIONS, curveOf } from '../../../bench/report/series.ts'
import { summarize } from '../../../bench/report/summary.ts'
import { renderText } from '../../../bench/report/text.ts'
import { configurationsOf, reckonScale } from '../../../bench/scale/result.ts'
import { aResult, type Run } from '../../support/bench-result.ts'

const histogram = emptyHistogram()
for (let ms = 1; ms <= 1000; ms++) recordValue(histogram, ms)
const slot = { succeeded: 5, failed: 0, refused: 1, dropped: 2, latency: histogram }
const samples = [0, 1, 2].map((at) => ({
  ...{ at, cpu: { service: at * 500_000 }, residentBytes: { service: 1e8 + at } },
  threads: {},
}))

function measuredResult(run: Run, load: 'closed' | number = 'closed') {
  const curves = {
    operation: curveOf(histogram),
    'new-order': curveOf(histogram),
    '503 to new-order': curveOf(histogram),
  }
  const open = { kind: 'open', perSecond: Number(load), ofMaximum: 0.5, connections: 9, patienceSeconds: 1 } as const
  return {
    ...aResult(run),
    load: load === 'closed' ? ({ kind: 'closed' } as const) : open,
    ...{ curves, series: buildSeries([slot, slot, slot], 1000, samples), seconds: 3 },
  }
}

function aDocument(parts: Partial<BenchDocument>): BenchDocument {
  const machine = { processor: 'X & Y', processors: 4, memoryBytes: 1e9, system: 'linux', node: 'v20', loadAverage: 1 }
  const server = { name: 'this <tree>', commit: 'abc', note: '', isOurs: true }
  return {
    ...{ format: 'chancery-bench', version: 1, command: ['--json', "it's"], commit: 'abc', machine },
    ...{ startedAt: '2026-01-01T00:00:00Z', endedAt: '2026-01-01T00:03:00Z', interruptedBy: undefined },
    ...{ servers: [server, { ...server, name: 'other', isOurs: false, note: 'keeps nothing' }] },
    ...{ measurements: [], overload: [], abuse: [], scale: [], profiles: [], micro: undefined, signer: [], ...parts },
  }
}

const rows = [
  { perSecond: 100, service: 900, floor: 500 },
  { perSecond: 50, service: 2000, floor: 500 },
]
const compared = summarize('full-flow', 'closed loop', [
  rows.map((run) => measuredResult(run)),
  [measuredResult(rows[0] as Run), { broken: 'it <died>' }],
])
const sweep = [25, 50, 100].map((rate) =>
  summarize('full-flow', `open loop, ${rate}/s`, [[measuredResult({ perSecond: rate }, rate)]]),
)
const overload = reckonOverload({
  ...{ server: 'this', maximum: aResult({ perSecond: 10 }), run: measuredResult({ perSecond: 1 }, 20), samples },
  parts: [
    { name: 'before', from: 0, to: 1, perSecond: 5 },
    { name: 'flood', from: 1, to: 2, perSecond: 20 },
    { name: 'after', from: 2, to: 3, perSecond: 5 },
  ],
  slots: [slot, slot, slot],
})
const counts = { opened: 10, closedByServer: 3, acts: 100, sentBytes: 1e6, answers: { unauthorized: 90 }, cpuMicros: 1 }
const abuse = {
  ...({ server: 'this', kind: 'slowloris', connections: 1000, pauseMs: 1000 } as const),
  abuser: [counts],
  others: summarize('full-flow', 'beside slowloris', [rows.map((run) => measuredResult(run))]),
}

const scale = reckonScale(
  configurationsOf({ fronts: [1, 2], instances: 0 }),
  [[[measuredResult(rows[0] as Run)], [measuredResult(rows[1] as Run)]]],
  { count: 3, areShared: false },
)
const cost = { name: 'TLS', places: { fronts: 30, main: 1, validation: 0, signer: 2 }, total: 33 }
const profile: ScenarioProfile = {
  ...{ scenario: 'full-flow', build: 'this', result: measuredResult(rows[0] as Run), profiledPerSecond: 50 },
  ...{ cpu: [cost], elsewhere: { 'PostgreSQL: backends': 40 }, functions: [['run <a>', 3]], otherFunctions: [] },
  database: {
    statements: [{ text: 'SELECT 1', calls: 4, rows: 4, execMs: 1, walBytes: 0 }],
    ...{ commits: 1, walRecords: 1, walBytes: 100 },
  },
  loopDelays: [{ thread: 'main', p50: 1, p99: 2, max: 3 }],
  ...{ allocations: [cost], allocatingFunctions: [['run', 300]] },
}
const micro = {
  floor: { jwsVerification: 90, csrVerification: 100, signature: 40 },
  results: [{ name: 'order-create', batch: 4, own: 30, other: 90, operations: 10 }],
}
const signer = [0, 4].map((sessions) => ({
  ...{ type: 'P-256' as const, sessions, perSecond: 1000, p50Ms: 1, p99Ms: 2, signerMicros: 200, clientMicros: 50 },
  ...{ mainThread: 0.5, otherThreads: 0.1, machine: 0.3, limitedBy: 'the library' },
}))

describe('a report', () => {
  const measured = { measurements: [compared, ...sweep], overload: [overload], abuse: [abuse] }
  const html = renderHtml(aDocument({ ...measured, scale, profiles: [profile], micro, signer }))

  test('needs nothing from anywhere', () => {
    assert.doesNotMatch(html, /<script|<link|<img|<iframe|@import|url\(|\ssrc=|\shref=|https?:\/\//)
  })

  test('shows every part of the document', () => {
    for (const heading of [
      'full-flow: latency against rate',
      'Overload with full-flow',
      'Beside one abusive client',
      'full-flow, closed loop',
      'More front threads, more instances',
      'full-flow (http-01) of this: where the CPU of one operation goes',
      'The parts one by one',
      'The signer alone',
    ])
      assert.ok(html.includes(`<h2>${heading}</h2>`), heading)
    assert.match(html, /npm run bench -- --json/)
    assert.match(html, /keeps nothing/)
    assert.match(html, /prefers-color-scheme: dark/)
  })

  test('draws what happened over time for every server, and beside an abuser', () => {
    for (const title of [
      'Throughput over time',
      'Latency over time: A',
      'Latency over time: B',
      'Throughput of the others over time: slowloris',
    ])
      assert.ok(html.includes(`<figcaption>${title}</figcaption>`), title)
  })

  test('says how long it took', () => assert.match(html, /it took 3 min 0 s</))

  test('has tables whose headings say what they head', () => {
    assert.match(html, /<th scope="row">per second<\/th>/)
    assert.doesNotMatch(html, /<th\b[^>]*><\/th>|<th>/)
  })

  test('has every part of a bar with its name, figure and share of the longest', () => {
    assert.match(html, /<i class="bar c1" style="width:75%" title="asked: 90 µs"><\/i><b>120<\/b>/)
  })

  test('says when more left in a second than the scale has room for', () => {
    const [before] = overload.run.series.slots
    const slots = [{ ...(before as NonNullable<typeof before>), dropped: 4000 }]
    const run = { ...overload.run, series: { ...overload.run.series, slots } }
    assert.doesNotMatch(html, /Beyond the scale/)
    assert.match(renderHtml(aDocument({ overload: [{ ...overload, run }] })), /up to 4,000 dropped in one second/)
  })

  test('of one server with several scenarios has one table of them', () => {
    const one = ['new-order', 'nonce'] as const
    const measurements = one.map((name) => summarize(name, 'closed loop', [[measuredResult({ perSecond: 7 })]]))
    const [server] = aDocument({}).servers
    const page = renderHtml({ ...aDocument({ measurements }), servers: server ? [server] : [] })
    assert.match(page, /<th scope="row">new-order<\/th><td class="number">7<\/td>/)
    assert.doesNotMatch(renderHtml(aDocument({ overload: [overload] })), /In one table/)
  })

  test('says what broke, and shows text of others as text', () => {
    assert.match(html, /broke in a round: it &#60;died&#62;/)
    assert.doesNotMatch(html, /<tree>|<died>/)
  })

  test('draws numbers only', () => {
    assert.ok((html.match(/<svg/g) ?? []).length > 15)
    assert.doesNotMatch(html, /NaN|Infinity|undefined/)
  })

  test('closes what it opens', () => {
    const open: string[] = []
    for (const [, slash, name] of html.matchAll(/<(\/?)([a-z0-9]+)\b[^>]*>/g)) {
      if (name === 'meta') continue
      if (slash === '') open.push(name as string)
      else assert.equal(open.pop(), name)
    }
    assert.deepEqual(open, [])
  })

  test('of servers that all broke is a report all the same', () => {
    const broken = summarize('full-flow', 'closed loop', [[{ broken: 'gone' }, { broken: 'gone, too' }]])
    assert.match(renderHtml(aDocument({ measurements: [broken] })), /broke in a round: gone, too/)
  })
})

describe('the line of progress', () => {
  test('ends with all that was done', () => {
    const written: string[] = []
    const out = { isTTY: false, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream
    let operations = 0
    const line = progressLine(out)
    line.begin('measuring', () => ({ operations, failures: 1, refused: 0, dropped: 0 }))
    operations = 7
    line.begin('checking')
    line.end()
    assert.deepEqual(written, ['measuring\n', 'measuring 0 s: 7 done, 1 failed\n', 'checking\n'])
  })
})

describe('the text of an abuse', () => {
  test('has a range when there is more than one round', () => {
    assert.match(renderAbuse(abuse), /keep 50 % of their throughput\n/)
    const [round] = abuse.others.rounds
    const faster = summarize('full-flow', 'x', [
      round ?? [],
      [measuredResult({ perSecond: 100 }), measuredResult({ perSecond: 80 })],
    ])
    assert.match(renderAbuse({ ...abuse, others: faster }), /\(50 %–80 %\)/)
  })
})

describe('the text of a result', () => {
  test('fits into 80 columns with its longest step and large figures', () => {
    const latency = { count: 123_456, mean: 12_345.6, p50: 9.87, p90: 1, p95: 1, p99: 29_999, max: 30_000 }
    const text = renderText({ ...aResult({ perSecond: 1 }), latency, steps: { 'poll-authorization': latency } })
    const table = text.split('\n').filter((line) => /^ {2}poll-|^latency/.test(line))
    assert.equal(table.length, 2)
    for (const line of table) assert.ok(line.length <= 80, `${line.length}`)
  })
})

describe('axes', () => {
  const positive = fc.double({ min: 1e-3, max: 1e7, noNaN: true })

  test('hold every value, with ticks in order and between their ends', () => {
    fc.assert(
      fc.property(positive, positive, (a, b) => {
        const [low, high] = [Math.min(a, b), Math.max(a, b)]
        for (const axis of [linearAxis('', high), logAxis('', low, high), timeAxis(high)]) {
          for (const value of [low, high]) assert.ok(axis.place(value) >= 0 && axis.place(value) <= 1)
          const places = axis.ticks.map(({ at }) => axis.place(at))
          assert.ok(
            axis.ticks.length >= 2 && axis.ticks.length < 26,
            `${axis.ticks.length} ticks for ${low} to ${high}`,
          )
          assert.deepEqual(
            places,
            places.toSorted((x, y) => x - y),
          )
        }
        assert.ok(logAxis('', low, high).place(low) < 1e-9 + logAxis('', low, high).place(high))
      }),
    )
  })

  test('of percentiles give every nine the same room', () => {
    const axis = ninesAxis('', 3)
    const places = [0, 0.9, 0.99, 0.999].map((fraction) => Math.round(axis.place(fraction) * 300))
    assert.deepEqual(places, [0, 100, 200, 300])
  })

  test('of percentiles end where the values do', () => {
    const axis = ninesAxis('', 2.5)
    assert.equal(axis.place(1), 1)
    assert.deepEqual(
      axis.ticks.map(({ label }) => label),
      ['0 %', '50 %', '90 %', '99 %'],
    )
  })

  test('have short labels', () => {
    assert.deepEqual([0, 0.01234, 1.5, 12.34, 1234.5].map(shortNumber), ['0', '0.012', '1.5', '12.3', '1,235'])
  })
})

describe('series', () => {
  test('tell cores in use between samples, and the distribution at fixed percentiles', () => {
    const { server, slots } = buildSeries([slot], 1000, samples)
    assert.deepEqual(
      server.map(({ cores }) => cores.service),
      [undefined, 0.5, 0.5],
    )
    assert.deepEqual([slots[0]?.succeeded, slots[0]?.refused, slots[0]?.dropped], [5, 1, 2])
    const curve = curveOf(histogram)
    assert.equal(curve.length, CURVE_FRACTIONS.length)
    assert.deepEqual(
      curve,
      curve.toSorted((a, b) => a - b),
    )
    assert.equal(curve.at(-1), 1000)
  })
})
