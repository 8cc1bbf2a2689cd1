/**
 * `npm run faults` with a seed of its own: few faults in the usual run, and a thousand with `CHANCERY_NIGHTLY=1`.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { attribute } from '../../bench/faults/causes.ts'
import type { Happened } from '../../bench/faults/conduct.ts'
import type { FaultsDocument } from '../../bench/faults/document.ts'
import type { Finding } from '../../bench/faults/finding.ts'
import { KINDS } from '../../bench/faults/kinds/table.ts'
import { planFaults } from '../../bench/faults/schedule.ts'
import { judge } from '../../bench/faults/soak.ts'
import { requireCommand } from '../support/requirements.ts'

const PROGRAM = path.resolve(import.meta.dirname, '../../bench/faults/main.js')
const NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
const USUAL = ['--seed', '7', '--faults', '4', '--duration', '30s', '--rate', '5', '--bound', '240']
const WORDS = NIGHTLY
  ? ['--seed', '1', '--faults', '1000', '--duration', '10h']
  : [...USUAL, '--kinds', 'kill-primary,kill-signer,kill-instance,restart-instance']

describe('the plan of faults', () => {
  const options = { seed: 7, faults: 60, duration: 600, kinds: Object.keys(KINDS) }

  test('is the same for the same seed, and another for another one', () => {
    assert.deepEqual(planFaults(options), planFaults(options))
    assert.notDeepEqual(planFaults(options), planFaults({ ...options, seed: 8 }))
  })

  test('has every kind before any comes again, and gives each fault a part of the time', () => {
    const planned = planFaults({ ...options, faults: options.kinds.length })
    assert.deepEqual(planned.map(({ kind }) => kind).sort(), [...options.kinds].sort())
    for (const [index, { at }] of planned.entries())
      assert.equal(Math.floor((at * options.kinds.length) / options.duration), index)
  })
})

describe('findings', () => {
  const ran = (kind: string, beganAt: number): Happened => {
    const rest = { target: '', plannedAt: beganAt, silenceMs: 0 }
    return { kind, beganAt, endedAt: beganAt + 10, recoveryMs: 5, ...rest }
  }
  const faults = [ran('promote-asynchronous', 100), ran('kill-mail', 112), ran('kill-mail', 200)]
  const order: Finding = { trouble: 'lost', at: 300, what: 'an order', unpromised: 'forgotten' }

  test('belong to the fault that was running, else to the last one before', () => {
    const causeAt = (at: number) => attribute([{ trouble: 'stuck', at, what: '' }], faults).findings[0]?.fault
    assert.deepEqual([99, 105, 113, 127, 150, 205, 300].map(causeAt), [undefined, 0, 1, 1, 1, 2, 2])
  })

  test('are none for an order that an asynchronous promotion may have forgotten', () => {
    const { findings, unpromised } = attribute(
      [
        { ...order, since: 111 },
        { ...order, since: 116 },
      ],
      faults,
    )
    assert.deepEqual([unpromised.map(({ fault }) => fault), findings.map(({ fault }) => fault)], [[0], [2]])
  })

  test('are some for a certificate that it has lost', () => {
    assert.equal(attribute([{ trouble: 'lost', at: 105, what: 'a certificate' }], faults).findings.length, 1)
  })
})

describe('the verdict of a soak', () => {
  const hour = Array.from({ length: 360 }, (_, index) => 10 * index)
  const noise = (at: number) => (at % 70) / 10
  const verdictOf = (value: (at: number) => number, name = 'memory') =>
    judge({ name, points: hour.map((at) => [at, value(at)] as const) })

  test('is flat for noise, and for what has grown in the first half alone', () => {
    assert.equal(verdictOf((at) => 200 + noise(at)).isFlat, true)
    assert.equal(verdictOf((at) => 200 + Math.min(at, 1_500) / 10 + noise(at)).isFlat, true)
  })

  test('names what goes on rising, and by how much an hour', () => {
    const { isFlat, perHour } = verdictOf((at) => 200 + at / 60 + noise(at))
    assert.equal(isFlat, false)
    assert.ok(Math.abs(Number(perHour) - 60) < 2, String(perHour))
  })

  test('looks at the peaks of dead rows, which vacuum removes from time to time', () => {
    const tooth = (at: number) => at % 700
    assert.equal(verdictOf(tooth, 'dead rows of orders').isFlat, true)
    assert.equal(verdictOf((at) => tooth(at) * (1 + at / 3_600), 'dead rows of orders').isFlat, false)
  })
})

describe('faults under load', { ...requireCommand('haproxy'), timeout: NIGHTLY ? 12 * 3_600_000 : 900_000 }, () => {
  test('nothing is lost, doubled, stuck or answered with 500, and each fault is recovered from', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-harness-'))
    const file = path.join(folder, 'faults.json')
    const child = spawn(process.execPath, [PROGRAM, ...WORDS, '--json', file], { stdio: ['ignore', 'pipe', 'pipe'] })
    const [output, complaints, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ])
    console.log(output)
    assert.equal(code, 0, `${output}\n${complaints}`)
    const { total, faults, books } = JSON.parse(readFileSync(file, 'utf8')) as FaultsDocument
    rmSync(folder, { recursive: true })
    assert.deepEqual(total, { lost: 0, doubled: 0, stuck: 0, error: 0 })
    assert.equal(faults.length, NIGHTLY ? 1000 : 4)
    assert.ok(books.certificates > 0 && books.revoked > 0)
  })
})
