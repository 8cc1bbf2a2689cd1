/** Counts and durations as they are scraped: exact, summed over threads, and never falling. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram, Registry } from 'prom-client'
import { createMetrics, renderMetrics, takeSnapshot } from '../../../src/ops/metrics.ts'
import {
  createThreadMetrics,
  reportProcess,
  reportThread,
  type ThreadMetrics,
} from '../../../src/ops/thread-metrics.ts'
import { each } from '../../support/each.ts'

const DURATION = 'service_http_request_duration_seconds'

async function scraped(...threads: ReturnType<typeof createMetrics>[]): Promise<string[]> {
  const text = await renderMetrics(await Promise.all(threads.map(takeSnapshot)))
  return text.split('\n').filter((line) => line.includes('service_http_'))
}

test('answers are counted by method and status, over all threads', async () => {
  const [one, two] = [createMetrics(), createMetrics()]
  one.requests.answered('GET', 200, 'directory', 0.001)
  two.requests.answered('GET', 200, 'directory', 0.001)
  two.requests.answered('POST', 404, 'none', 0.001)
  const lines = await scraped(one, two)
  assert.ok(lines.includes('service_http_requests_total{method="GET",status="200"} 2'))
  assert.ok(lines.includes('service_http_requests_total{method="POST",status="404"} 1'))
})

test('methods that a client makes up share one label', async () => {
  const metrics = createMetrics()
  for (const method of ['get', 'BREW', 'other', '"}']) metrics.requests.answered(method, 405, 'none', 0.001)
  const counts = (await scraped(metrics)).filter((line) => /^service_http_requests_total\{.*status="405"/.test(line))
  assert.deepEqual(counts, ['service_http_requests_total{method="other",status="405"} 4'])
})

test('failures of ours are shown before the first, whose increase would be seen by nobody otherwise', async () => {
  const metrics = createMetrics()
  const first = 'service_http_requests_total{method="POST",status="500"}'
  assert.ok((await scraped(metrics)).includes(`${first} 0`))
  metrics.requests.answered('POST', 500, 'order', 0.001)
  assert.ok((await scraped(metrics)).includes(`${first} 1`))
})

test('durations read as a histogram of the metrics library does, on and between the bounds of its buckets', async () => {
  const metrics = createMetrics()
  const registry = new Registry()
  const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
  const reference = new Histogram({
    name: DURATION,
    help: 'x',
    labelNames: ['resource'],
    buckets,
    registers: [registry],
  })
  for (const [i, seconds] of [0, 0.0004, 0.0005, 0.00051, 0.2, 5, 7, 1000].entries()) {
    const resource = i % 2 ? 'order' : 'directory'
    metrics.requests.answered('POST', 200, resource, seconds)
    reference.observe({ resource }, seconds)
  }
  const lines = (text: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith(`${DURATION}_`))
      .sort()
  assert.deepEqual(lines((await scraped(metrics)).join('\n')), lines(await registry.metrics()))
})

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
  assert.deepEqual(each(both, 'alarms'), [4, 4])
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

test('the time in which a loop was busy is that of the thread, however often it is asked', async () => {
  const metrics = createMetrics()
  for (let i = 0; i < 5; i++) reportThread(metrics, 'front')
  const { values } = await metrics.threadBusy.get()
  const now = performance.eventLoopUtilization().active / 1_000
  assert.deepEqual(each(values, 'labels'), [{ thread: 'front' }])
  assert.ok((values[0]?.value ?? 0) > 0 && (values[0]?.value ?? 0) <= now)
})

test('processor time and memory are those of the process', async () => {
  const metrics = createMetrics()
  for (let i = 0; i < 5; i++) reportProcess(metrics)
  const [cpu] = (await metrics.processCpu.get()).values
  const [resident] = (await metrics.processResident.get()).values
  const { user, system } = process.cpuUsage()
  assert.ok((cpu?.value ?? 0) > 0 && (cpu?.value ?? 0) <= (user + system) / 1_000_000)
  assert.ok((resident?.value ?? 0) > 10_000_000)
})
