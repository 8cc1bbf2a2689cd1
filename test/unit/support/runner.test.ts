/** What the runner of the tests decides. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { concerned, withinTime } from '../../support/changed-files.ts'
import { inParts } from '../../support/chosen-files.ts'
import { ledgerReport } from '../../support/ledger.ts'
import type { TestEnd } from '../../support/outcome-reporter.ts'
import { secondsLeft } from '../../support/progress.ts'
import { longestFirst } from '../../support/rings-run.ts'
import { isNamed, readOptions } from '../../support/run-options.ts'
import { resultOf } from '../../support/test-process.ts'

const passed = (file: string, seconds: number): TestEnd => ({ file, name: 'x', result: 'passed', seconds })
const exit = { trouble: undefined, output: '', seconds: 8 }

describe('what became of a process', () => {
  test('its time and processor time are those of its files by their tests', () => {
    const parts = [{ kind: 'test process', seconds: 8, cpu: 4 }]
    const { files, failures } = resultOf(['a', 'b'], [passed('a', 1), passed('b', 3)], parts, exit)
    assert.deepEqual(
      files.map(({ file, seconds, cpu }) => [file, Math.round(seconds), Math.round(cpu)]),
      [
        ['a', 2, 1],
        ['b', 6, 3],
      ],
    )
    assert.deepEqual(failures, [])
  })

  test('an end without a failed test is one of the file that ran last', () => {
    const dead = { trouble: 'ended by SIGKILL', output: 'the last words', seconds: 1 }
    const { files, failures } = resultOf(['a', 'b'], [passed('a', 1)], [], dead)
    assert.deepEqual(failures, [{ file: 'a', name: '', error: 'ended by SIGKILL\nthe last words' }])
    assert.deepEqual(
      files.map(({ failed }) => failed),
      [1, 0],
    )
    assert.equal(resultOf(['a', 'b'], [], [], dead).failures.length, 2, 'nobody knows which')
  })

  test('a test that a helper declares is one of the file that runs', () => {
    const { files } = resultOf(['a', 'b'], [passed('a', 1), passed('b', 1), passed('support', 1)], [], exit)
    assert.deepEqual(
      files.map((file) => file.passed),
      [1, 2],
    )
  })
})

describe('what a change concerns', () => {
  const importers = new Map([
    ['state', ['order', 'state.test.js']],
    ['order', ['order.test.js', 'program']],
    ['program', ['program.test.js', 'order']],
  ])

  test('is what imports the changed file, over other files too', () => {
    const distances = [...concerned(['state'], importers)]
    assert.deepEqual(distances, [
      ['state.test.js', 1],
      ['order.test.js', 2],
      ['program.test.js', 3],
    ])
  })

  test('runs as far as the time allows: what is changed, units, then the nearest', () => {
    const seconds = 10
    const candidates = [
      { file: 'near', distance: 1, isUnit: false, seconds },
      { file: 'far', distance: 3, isUnit: false, seconds },
      { file: 'unit', distance: 4, isUnit: true, seconds },
      { file: 'changed', distance: 0, isUnit: false, seconds: 100 },
    ]
    assert.deepEqual(withinTime(candidates, 100), ['changed'])
    assert.deepEqual(withinTime(candidates, 120), ['changed', 'unit', 'near'])
  })
})

test('a word chooses a file of the ring release by its name', () => {
  const file = '/dist/test/deploy/packages.test.js'
  for (const word of ['deploy/packages', 'packages', 'test/deploy/packages.test.ts'])
    assert.ok(isNamed(file, [word]), word)
  for (const word of ['deploy', 'deploy/', 'test/deploy', 'unit/packaged']) assert.ok(!isNamed(file, [word]), word)
})

test('options are told from words', () => {
  const { words, changedSince } = readOptions(['--changed', 'main', '--times'])
  assert.deepEqual([words, changedSince], [[], 'main'])
  assert.equal(readOptions(['--changed', '--times']).changedSince, 'HEAD')
  assert.deepEqual(readOptions(['unit', '--release']).words, ['unit'])
  assert.throws(() => readOptions(['--tmies']), /unknown option --tmies/)
  assert.throws(() => readOptions(['unit', '--keep']), /--all --keep/)
})

test('the longest process begins first', () => {
  const before = new Map([['file\ttest/long.test.ts', { count: 1, cpu: 1, seconds: 90 }]])
  const processes = ['/d/test/new.test.js', '/d/test/long.test.js'].map((entry) => ({ entry, files: [entry] }))
  assert.match(longestFirst(processes, before)[0]!.entry, /long/)
})

test('files share processes of about the same time', () => {
  const files = ['a', 'b', 'c', 'd', 'e'].map((file) => ({ file, seconds: file === 'a' ? 9 : 3 }))
  assert.deepEqual(inParts(files, 11), [['a'], ['b', 'c', 'd', 'e']])
  assert.deepEqual(inParts(files, 100), [['a', 'b', 'c', 'd', 'e']])
})

test('what is left is shared, and never shorter than the longest file', () => {
  assert.equal(secondsLeft([10, 10, 10, 10], 2), 20)
  assert.equal(secondsLeft([30, 5], 2), 30)
  assert.equal(secondsLeft([], 2), 0)
})

test('the ledger says what changed by more than chance', () => {
  const cost = (count: number, cpu: number) => ({ count, cpu, seconds: cpu })
  const before = new Map([
    ['part\tservice', cost(253, 580)],
    ['file\ta', cost(3, 10)],
  ])
  const report = ledgerReport(
    new Map([
      ['part\tservice', cost(90, 90)],
      ['file\ta', cost(3, 11)],
    ]),
    before,
  )
  assert.match(report.at(-1)!, /90\.0 .* 90 {2}part service \(before: 580\.0 s of CPU, 580\.0 s, 253\)/)
  assert.equal(report.filter((line) => line.includes('file a')).length, 1)
})
