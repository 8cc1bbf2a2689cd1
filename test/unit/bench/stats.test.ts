import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failure } from '../../../bench/client/http.ts'
import { latencyOf, percentileMs, RunStats } from '../../../bench/measure/stats.ts'

test('counts of several processes become one, as if one had counted', () => {
  const all = new RunStats()
  for (const ms of [10, 20]) {
    const stats = new RunStats()
    stats.reset(100)
    const now = performance.now()
    stats.recordStep('new-order', ms)
    stats.recordOperation(now, now + ms, now + 15)
    stats.recordArrival(1)
    stats.recordFailure(new Failure('timeout', `after ${ms} ms`))
    all.add(JSON.parse(JSON.stringify(stats.snapshot())))
  }
  const { withinWindow, offered, failed } = all.counts
  assert.deepEqual([withinWindow, offered, failed, all.operations.totalCount], [1, 2, 2, 2])
  assert.deepEqual(all.failures, [['timeout', { count: 2, example: 'after 10 ms' }]])
  assert.deepEqual([all.slots[0]?.succeeded, all.slots[0]?.failed, all.slots[0]?.latency.totalCount], [2, 2, 2])
  assert.equal(all.steps.get('new-order')?.totalCount, 2)
})

test('percentiles are at most one in a hundred off, from microseconds to minutes', () => {
  for (const ms of [0.001, 0.3, 7, 250, 90_000]) {
    const stats = new RunStats()
    for (let i = 0; i < 1000; i++) stats.recordStep('s', i === 0 ? ms * 10 : ms)
    const histogram = stats.steps.get('s')!
    assert.ok(Math.abs(percentileMs(histogram, 99) / ms - 1) <= 0.01, `${percentileMs(histogram, 99)} for ${ms}`)
    assert.equal(latencyOf(histogram).count, 1000)
  }
  assert.equal(percentileMs(new RunStats().operations, 50), 0)
})
