/** Request counts and durations as they are scraped: exact, cumulative by bucket, and summed over threads. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram, Registry } from 'prom-client'
import { createMetrics, renderMetrics, takeSnapshot } from '../../../src/ops/metrics.ts'

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
