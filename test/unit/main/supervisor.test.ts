/** What many who ask for metrics cost those who have something to validate. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { type SupervisorParts, spawnSupervisor } from '../../../src/main/supervisor.ts'
import { createMetrics, takeSnapshot } from '../../../src/ops/metrics.ts'
import { gate } from '../../support/gate.ts'

const SCRAPES = 200

function aSupervisor(more: object = {}) {
  const metrics = createMetrics()
  const counted = { dispatched: 0, front: 0 }
  const { opened: isAnswering, open: answer } = gate()
  const ref = {
    async ask() {
      counted.front++
      await isAnswering
      return { threadId: 1, snapshot: await takeSnapshot(createMetrics()) }
    },
  }
  const parts = {
    log: pino({ level: 'silent' }),
    metrics,
    db: { query: async () => [] },
    ca: { unreachable: () => undefined, health: async () => ({ signing: true, tokens: [] }), issuers: () => [] },
    flags: {
      pool: () => ({ max: 4, size: 0, available: 4, waiting: 0 }),
      isOn: () => false,
      disk: () => undefined,
      noteDisk: () => undefined,
    },
    dispatcher: {
      dispatch: () => ++counted.dispatched > 0,
      load: () => ({ known: 0, running: 0, waiting: {}, oldestWaitMs: 0 }),
    },
    backends: new Map(),
    signer: 'internal',
    fronts: () => [{ status: 'running', ref }],
    events: { thread: () => undefined },
    workers: () => ({ challenge: true, cleanup: true, expiration: false }),
    background: async () => ({ tasks: [], consumers: [] }),
    signerRecords: () => undefined,
    isBehind: () => false,
    givenUp: async () => 0,
    dnsResolver: () => undefined,
    auditLog: () => undefined,
    smtp: undefined,
    crl: () => undefined,
    isStopping: () => false,
    ...more,
  }
  return { supervisor: spawnSupervisor(parts as unknown as SupervisorParts), counted, answer }
}

test('scrapes that come at a time share one exposition, and a validation does not wait for them', async () => {
  const { supervisor, counted, answer } = aSupervisor()
  const scrapes = Array.from({ length: SCRAPES }, () => supervisor.ask('metrics', undefined, 60_000))
  await sleep(10)
  const request = {} as Parameters<typeof supervisor.tell<'validate'>>[1]['requests'][number]
  supervisor.tell('validate', { front: 0, requests: [request] })
  await sleep(10)
  assert.equal(counted.dispatched, 1)
  answer()
  const texts = await Promise.all(scrapes)
  assert.match(texts[0] as string, /^service_front_threads 1$/m)
  assert.deepEqual([new Set(texts).size, counted.front], [1, 1])
  supervisor.stop()
})
