/** Counters of several threads never fall, whatever becomes of the threads. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics, renderMetrics, takeSnapshot } from '../../../src/ops/metrics.ts'
import { createThreadMetrics, type ThreadMetrics } from '../../../src/ops/thread-metrics.ts'

/** A thread that has raised some alarms and is overloaded. */
async function aThread(threadId: number, alarms: number) {
  const metrics = createMetrics()
  metrics.alarms.inc(alarms)
  metrics.overloadedThreads.set(1)
  metrics.requests.answered('GET', 200, 'directory', 0.001)
  return { threadId, takenAt: alarms, snapshot: await takeSnapshot(metrics) }
}

async function shown(snapshots: ReturnType<ThreadMetrics['collect']>) {
  const text = await renderMetrics(await snapshots)
  const of = (name: string) => Number(new RegExp(`^service_${name} (\\d+)$`, 'm').exec(text)?.[1])
  return {
    alarms: of('alarms_total'),
    overloaded: of('overloaded_threads'),
    directory: of('http_request_duration_seconds_count\\{resource="directory"\\}'),
  }
}

test('a thread that is late with its answer counts as it last did', async () => {
  const { collect: sum } = createThreadMetrics()
  assert.equal((await shown(sum([await aThread(1, 3), await aThread(2, 4)]))).alarms, 7)
  assert.equal((await shown(sum([undefined, await aThread(2, 5)]))).alarms, 8)
  assert.equal((await shown(sum([await aThread(1, 4), undefined]))).alarms, 9)
})

test('what a thread that was replaced has counted stays, and how it was does not', async () => {
  const { collect: sum } = createThreadMetrics()
  await shown(sum([await aThread(1, 3), await aThread(2, 4)]))
  assert.deepEqual(await shown(sum([await aThread(3, 1), await aThread(2, 4)])), {
    alarms: 8,
    overloaded: 2,
    directory: 3,
  })
  assert.deepEqual(await shown(sum([await aThread(4, 0), undefined])), { alarms: 8, overloaded: 2, directory: 4 })
})

test('an answer that a successor has overtaken counts once', async () => {
  const { collect: sum } = createThreadMetrics()
  await sum([await aThread(1, 3)])
  await sum([await aThread(2, 1)])
  assert.equal((await shown(sum([await aThread(1, 3)]))).alarms, 4)
})

test('threads that are replaced again and again leave one sum behind', async () => {
  const { collect: sum } = createThreadMetrics()
  for (let threadId = 1; threadId <= 50; threadId++) await sum([await aThread(threadId, 1)])
  assert.equal((await sum([undefined])).length, 3)
  assert.deepEqual(await shown(sum([undefined])), { alarms: 50, overloaded: 1, directory: 50 })
})

test('two scrapes at once count a thread that was replaced once', async () => {
  const { collect: sum } = createThreadMetrics()
  await sum([await aThread(1, 3)])
  const next = await aThread(2, 1)
  const both = await Promise.all([shown(sum([next])), shown(sum([next]))])
  const found = both.map(({ alarms }) => alarms)
  assert.deepEqual(found, [4, 4])
})

test('what a thread hands in at its end counts, whether it or its successor was asked before', async () => {
  const { collect, handIn } = createThreadMetrics()
  handIn(0, await aThread(1, 3))
  assert.equal((await shown(collect([await aThread(2, 1)]))).alarms, 4)
  handIn(0, await aThread(2, 5))
  assert.equal((await shown(collect([undefined]))).alarms, 8)
  assert.equal((await shown(collect([await aThread(3, 1)]))).alarms, 9)
  handIn(0, await aThread(2, 6))
  assert.deepEqual(await shown(collect([await aThread(3, 1)])), { alarms: 10, overloaded: 1, directory: 3 })
})

test('an answer to a scrape that comes after the last one of its thread changes nothing', async () => {
  const { collect, handIn } = createThreadMetrics()
  const answer = await aThread(1, 3)
  handIn(0, await aThread(1, 5))
  assert.equal((await shown(collect([answer]))).alarms, 5)
})
