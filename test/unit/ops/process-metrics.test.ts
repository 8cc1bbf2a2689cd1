import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { reportProcess, reportThread } from '../../../src/ops/process-metrics.ts'

test('the time in which a loop was busy is that of the thread, however often it is asked', async () => {
  const metrics = createMetrics()
  for (let i = 0; i < 5; i++) reportThread(metrics, 'front')
  const { values } = await metrics.threadBusy.get()
  const now = performance.eventLoopUtilization().active / 1_000
  const found = values.map(({ labels }) => labels)
  assert.deepEqual(found, [{ thread: 'front' }])
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
