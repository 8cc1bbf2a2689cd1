import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { emptyHistogram, recordValue } from '../../../bench/measure/histogram.ts'
import { cpuInWindow, memoryByRole, type ServerSample } from '../../../bench/measure/server-sampler.ts'
import { mergeSlots, type Slot, sumOfSlots, TimeSlots } from '../../../bench/measure/time-slots.ts'
import { type OverloadMeasured, reckonOverload } from '../../../bench/overload/result.ts'
import { renderOverload } from '../../../bench/overload/text.ts'
import { aResult } from '../../support/bench-result.ts'

const SLOTS_PER_SECOND = 5

/** `count` operations of `ms` in each of the slots of some seconds. */
function seconds(length: number, count: number, ms: number, more: Partial<Slot> = {}): Slot[] {
  return Array.from({ length: length * SLOTS_PER_SECOND }, () => {
    const latency = emptyHistogram()
    for (let i = 0; i < count; i++) recordValue(latency, ms)
    return { succeeded: count, failed: 0, refused: 0, dropped: 0, latency, ...more }
  })
}

const sample = (at: number, micros: number, bytes: number): ServerSample => ({
  ...{ at, cpu: { service: micros } },
  residentBytes: { service: bytes },
  threads: {},
})

function measured(slots: Slot[], samples: ServerSample[] = []): OverloadMeasured {
  const series = { slotSeconds: 1 / SLOTS_PER_SECOND, slots: [], server: [] }
  return {
    server: 'this',
    maximum: aResult({ perSecond: 100, service: 1000 }),
    run: { ...aResult({ perSecond: 1 }), series },
    parts: [
      { name: 'before', from: 0, to: 4, perSecond: 50 },
      { name: 'flood', from: 4, to: 14, perSecond: 200 },
      { name: 'after', from: 14, to: 18, perSecond: 50 },
    ],
    ...{ slots, samples },
  }
}

describe('an overload', () => {
  const calm = seconds(4, 10, 20)
  const flood = seconds(10, 18, 200, { refused: 20, dropped: 2 })

  test('is judged by what came out of it', () => {
    const result = reckonOverload(measured([...calm, ...flood, ...seconds(4, 10, 20)]))
    assert.deepEqual([result.goodput, result.goodputShare, result.worstGoodputShare], [90, 0.9, 0.9])
    assert.deepEqual(result.flood, { succeeded: 900, failed: 0, refused: 1000, dropped: 100 })
    assert.equal(result.refusedShare, 1000 / 1900)
    assert.ok(Math.abs(result.latencyInFlood.p50 - 200) < 2 && Math.abs(result.latencyBefore.p50 - 20) < 1)
  })

  test('has a worst time that its average hides', () => {
    const broken = [...seconds(5, 36, 200), ...seconds(5, 0, 0)]
    const result = reckonOverload(measured([...calm, ...broken, ...seconds(4, 10, 20)]))
    assert.deepEqual([result.goodputShare, result.worstGoodputShare], [0.9, 0])
    assert.match(renderOverload(result), /worst 5 s +0\.0 %/)
  })

  test('shorter than the window of its worst time is its worst time', () => {
    const { parts, ...others } = measured([...calm, ...seconds(3, 18, 200), ...seconds(4, 10, 20)])
    const [before, , after] = parts
    const short = { name: 'flood', from: 4, to: 7, perSecond: 200 } as const
    const result = reckonOverload({ ...others, parts: [before, short, { ...after, from: 7, to: 11 }] })
    assert.deepEqual([result.worstSeconds, result.worstGoodputShare], [3, 0.9])
    assert.match(renderOverload(result), /worst 3 s/)
  })

  test('is over when a second of arrivals is served about as fast as before', () => {
    const recoveryOf = (...after: Slot[]) => reckonOverload(measured([...calm, ...flood, ...after])).recoverySeconds
    assert.equal(recoveryOf(...seconds(4, 10, 25)), 0)
    assert.equal(recoveryOf(...seconds(2, 10, 200), ...seconds(2, 10, 20)), 2)
    assert.equal(recoveryOf(...seconds(1, 10, 20, { refused: 1 }), ...seconds(3, 10, 20)), 1)
    assert.equal(recoveryOf(...seconds(4, 10, 200)), undefined)
    assert.equal(recoveryOf(...seconds(4, 0, 0)), undefined, 'silence is no recovery')
  })

  test('tells what a refusal costs: what is left when successes cost what they do at the maximum', () => {
    // 900 successes at 1000 µs are 0.9 s; 1.1 s were used, and 1000 refusals share the rest.
    const samples = [
      sample(0, 0, 1),
      sample(4, 0, 10),
      sample(9, 550_000, 30),
      sample(14, 1_100_000, 20),
      sample(18, 1_100_000, 15),
    ]
    const result = reckonOverload(measured([...calm, ...flood, ...seconds(4, 10, 20)], samples))
    assert.equal(result.refusalMicros, 200)
    assert.deepEqual(result.memory, { before: { service: 10 }, most: { service: 30 }, after: { service: 15 } })
    assert.equal(reckonOverload(measured([...calm, ...flood])).refusalMicros, undefined)
  })
})

describe('slots of time', () => {
  test('count where something ended and keep latency where it was due', () => {
    const slots = new TimeSlots(100, 1000)
    slots.count('succeeded', 1250)
    slots.recordLatency(1010, 240)
    assert.deepEqual(
      slots.slots.map(({ succeeded, latency }) => [succeeded, latency.count]),
      [
        [0, 1],
        [0, 0],
        [1, 0],
      ],
    )
  })

  test('of several processes add up, also where one has more of them', () => {
    const merged: Slot[] = []
    mergeSlots(merged, seconds(1, 2, 10))
    mergeSlots(merged, seconds(2, 3, 10))
    assert.equal(sumOfSlots(merged).succeeded, 2 * 5 + 3 * 10)
    assert.equal(sumOfSlots(merged).latency.count, 40)
  })
})

describe('samples of a server', () => {
  test('give CPU between two moments, in proportion where they stand a little off', () => {
    const samples = [sample(0, 0, 0), sample(2, 2_000_000, 0), sample(4, 6_000_000, 0)]
    assert.deepEqual(cpuInWindow(samples, 2, 4), { service: 4_000_000 })
    assert.deepEqual(cpuInWindow(samples, 2.25, 3.75), { service: 3_000_000 })
    assert.equal(cpuInWindow(samples, 1.9, 2.1), undefined)
    assert.equal(cpuInWindow([], 0, 1), undefined)
  })

  test('count shared memory once a role', () => {
    const pages = new Map([
      [1, { residentPages: 100, sharedPages: 80 }],
      [2, { residentPages: 90, sharedPages: 60 }],
    ])
    const processes = [1, 2, 3].map((pid) => ({ pid, role: 'postgres' as const }))
    assert.deepEqual(
      memoryByRole(processes, (pid) => pages.get(pid)),
      { postgres: (20 + 30 + 80) * 4096 },
    )
  })
})
