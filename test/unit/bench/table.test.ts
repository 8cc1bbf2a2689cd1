import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { pssIn } from '../../../bench/measure/memory.ts'
import { parseOptions } from '../../../bench/options.ts'
import { type Figures, renderFigures, renderSentence } from '../../../bench/report/figures.ts'
import { summarize, type Turn, turnOf } from '../../../bench/report/summary.ts'
import { besideOther, cellsOf, ROW_NAMES, type RowName, renderTable, tableOf } from '../../../bench/report/table.ts'
import { aResult, type Run } from '../../support/bench-result.ts'

const MB = 1_000_000
const SERVERS = [
  { name: 'this tree (abc1234)', commit: 'abc1234', note: '' },
  { name: 'Pebble 2.4', commit: undefined, note: 'in memory' },
]

/** Of each row the same rounds, but for those that are given. */
function aTable(rounds: Turn[][], others: Partial<Record<RowName, Turn[][]>> = {}) {
  return tableOf(ROW_NAMES.map((name) => summarize('full-flow', `load of ${name}`, others[name] ?? rounds)))
}

const turns = (...runs: Run[]): Turn[] => runs.map(aResult)
const lineOf = (lines: string[][], label: string) => lines.find(([first]) => first === label)?.slice(1)
/** A was 2.0, 1.0 and 1.25 times B's. */
const ROUNDS = [
  turns({ perSecond: 1, service: 900, signer: 100, floor: 500 }, { perSecond: 1, service: 500, floor: 500 }),
  turns({ perSecond: 1, service: 600, signer: 100, floor: 500 }, { perSecond: 1, service: 700, floor: 500 }),
  turns({ perSecond: 1, service: 400, signer: 100, floor: 500 }, { perSecond: 1, service: 400, floor: 500 }),
]

describe('the table', () => {
  test('says what A costs beside B: below 1 it is cheaper, and the range is of the rounds', () => {
    const table = aTable(ROUNDS)
    assert.deepEqual(lineOf(cellsOf(table), 'load of order-warm'), [
      '700 µs, 1.4 floors',
      '500 µs, 1.0 floors',
      '1.25 (1.00–2.00)',
    ])
    const figure = table.rows[0]?.figures.serverMicros ?? assert.fail('no figure')
    assert.deepEqual(besideOther(figure, 1), { median: 1.25, lowest: 1, highest: 2 })
  })

  test('has the memory of all processes after certificates and after accounts, and nowhere else', () => {
    const memory = { service: 230 * MB, signer: 50 * MB, postgres: 70 * MB }
    const measured = [turns({ perSecond: 1, memory }, { perSecond: 1, memory: { service: 35 * MB } })]
    const lines = cellsOf(aTable(ROUNDS, { 'certificate-warm': measured, 'read-warm': measured }))
    const shown = lines.filter(([label]) => label?.startsWith('memory'))
    assert.deepEqual(shown, [
      ['memory (PSS), load of certificate-warm', '350 MB (230 + 50 + 70)', '35 MB', '10.00 (10.00–10.00)'],
      ['memory (PSS), load of account-warm', '–', '–', '–'],
    ])
  })

  test('counts what was refused while servers were cold', () => {
    const cold: Turn[] = [{ ...aResult({ perSecond: 1 }), refused: 4, succeeded: 90, failed: 6 }]
    const lines = cellsOf(aTable([], { 'certificate-http-01-cold': [cold, cold] }))
    assert.deepEqual(lineOf(lines, 'answered 503, load of certificate-http-01-cold'), ['8 of 200'])
  })

  test('says why a server has no figure, and keeps its other rounds', () => {
    const [a, b] = ROUNDS[0] as [Turn, Turn]
    const broken = { broken: 'always validates' }
    const never = [[a, broken]]
    const once = [
      [a, b],
      [a, broken],
    ]
    const lines = cellsOf(aTable(ROUNDS, { 'certificate-cold': never, 'read-warm': once }))
    assert.deepEqual(lineOf(lines, 'load of certificate-cold')?.slice(1), ['– (always validates)', '–'])
    const kept = ['500 µs, 1.0 floors (always validates)', '2.00 (2.00–2.00)']
    assert.deepEqual(lineOf(lines, 'load of read-warm')?.slice(1), kept)
  })

  test('reads as columns, and as nothing before a round is whole', () => {
    assert.match(renderTable(SERVERS, aTable(ROUNDS)), /^B {2}Pebble 2\.4: in memory$[\s\S]*^ +A +B +A\/B$/m)
    assert.equal(renderTable([], aTable([])), 'no whole round\n')
  })

  test('is written into the documents with commit and machine, from the text of its file', () => {
    const machine = { processor: 'AMD', processors: 2, memoryBytes: 8 * 1024 ** 3, system: 'linux', node: 'v20' }
    const about = { command: ['--start'], startedAt: '2026-01-02T03:04:05Z', commit: 'abc1234', release: '1.2.3' }
    const measured = { ...about, machine, servers: SERVERS, table: aTable(ROUNDS) }
    const figures = JSON.parse(JSON.stringify(measured)) as Figures
    const page = renderFigures(figures)
    assert.match(page, /^Version 1\.2\.3, commit `abc1234`, 2026-01-02, on 2 × AMD with 8 GiB/)
    assert.match(page, /^\| {2}\| A: this tree \(abc1234\), 4 clients \| B: Pebble 2\.4, 4 clients \| A\/B \|$/m)
    assert.match(
      page,
      /^\| load of read-warm \| 700 µs, 1\.4 floors \| 500 µs, 1\.0 floors \| 1\.25 \(1\.00–2\.00\) \|$/m,
    )
    assert.match(renderSentence(figures), /a certificate takes 1\.25 times the CPU[\s\S]*commit `abc1234`, AMD/)
    assert.throws(() => renderSentence({ ...figures, servers: [] }), /no certificate-warm beside Pebble/)
  })
})

test('a turn in which nothing succeeded is broken by its first failure', () => {
  const failures = [{ kind: 'timeout', count: 2, example: 'no answer' }]
  const nothing = { ...aResult({ perSecond: 0, failures }), succeeded: 0 }
  assert.deepEqual(turnOf(nothing), { broken: 'nothing succeeded; timeout: no answer' })
})

test('the proportional set size is read from smaps_rollup', () => {
  assert.equal(
    pssIn('00400000-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  900 kB\nPss:     123 kB\nPss_Dirty: 5 kB\n'),
    125_952,
  )
  assert.equal(pssIn(''), undefined)
})

describe('the options of the table', () => {
  const plan = (given: Record<string, unknown>) => parseOptions(given)

  test('are its own where a tree is started beside others, unless a scenario is named', () => {
    const { isTable, repeat, options } = plan({ start: true, beside: 'pebble' })
    assert.deepEqual([isTable, repeat, options.clients, options.warmupMs], [true, 3, 64, 25_000])
    assert.equal(plan({ compare: 'v1', beside: 'pebble' }).isTable, true)
    assert.equal(plan({ compare: 'v1', scenario: 'table' }).isTable, true)
    const named = plan({ start: true, beside: 'pebble', scenario: 'full-flow' })
    assert.deepEqual([named.isTable, named.options.clients, named.options.warmupMs], [false, 16, undefined])
    for (const given of [{ start: true }, { compare: 'v1' }, { beside: 'pebble' }])
      assert.deepEqual([plan(given).isTable, plan(given).scenarios], [false, ['full-flow']])
  })

  test('are refused where the table decides them, and --figures where there is no table', () => {
    assert.throws(() => plan({ scenario: 'table' }), /--scenario table: add --start/)
    for (const given of [{ rate: '5' }, { count: 5 }, { challenge: 'dns-01' }, { against: 'http://a.test/d' }])
      assert.throws(() => plan({ start: true, beside: 'pebble', ...given }), /the table decides it; name a --scenario/)
    assert.throws(() => plan({ start: true, figures: '/dev/null' }), /--figures: only --scenario table/)
  })
})
