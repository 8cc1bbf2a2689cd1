/** What is told of what came back from the signer: alarms and entries of the audit log. */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { pino } from 'pino'
import type { SignerUse } from '../../../src/ca/signer-records.ts'
import { Report } from '../../../src/main/ca/start-reconciliation.ts'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { SignerUseWatch } from '../../../src/services/reconcile/signer-use-watch.ts'
import { until } from '../../support/until.ts'

const OWN = { database: randomUUID(), incarnation: '7/00000001/16384' }
const COPY = { ...OWN, incarnation: '7/00000001/16390', requester: 'host-b https://b.example' }
const ALONE: SignerUse = { others: [], isSettled: true }
const UNKNOWN: SignerUse = { others: [], isSettled: false }
const SHARED: SignerUse = { others: [COPY], isSettled: true }

function aReport() {
  const alarms: { message: string; reason: string }[] = []
  const metrics = createMetrics()
  const ages: number[] = []
  let answer: SignerUse | undefined
  const use = new SignerUseWatch({
    records: { announce: async () => answer },
    place: async () => OWN,
    requester: 'host-a https://a.example',
    onAnswer: () => undefined,
  })
  const report = new Report({
    metrics,
    log: pino({ level: 'silent' }),
    eventWriter: { write: ({ data }) => void alarms.push(data as (typeof alarms)[number]) },
    isStopping: () => false,
    use,
    takeUntold: async (minAgeMs) => {
      ages.push(minAgeMs)
      return []
    },
  })
  const episode = () => {
    report.restored().certificate({ serialNumber: '01', names: [] } as never)
    report.events().complete(new Date())
  }
  /** An announcement, and a round of the leader behind it. */
  const announced = async (said: SignerUse | undefined) => {
    answer = said
    await use.announce()
    await report.events().looked()
  }
  return { report, use, alarms, ages, episode, announced }
}

test('what came back is told once the signer has said that no other database made it', async () => {
  const { report, alarms, episode, announced } = aReport()
  await announced(ALONE)
  episode()
  await report.events().looked()
  assert.equal(alarms.length, 0, 'the database that made it may not have been announced')
  await announced(UNKNOWN)
  assert.equal(alarms.length, 0)
  await announced(ALONE)
  assert.match(alarms[0]?.reason ?? '', /1 certificate and 0 revocations are back from the signer, /)
  assert.equal(alarms.length, 1)
})

test('an instance that restored nothing leaves decisions of the last seconds to the one that did', async () => {
  const { ages, episode, announced } = aReport()
  await announced(ALONE)
  episode()
  await announced(ALONE)
  assert.deepEqual(ages, [40_000, 0])
})

test('what came back is told at once where the signer is of an earlier release, and at the end of the service', async () => {
  const { report, alarms, episode, announced } = aReport()
  episode()
  await announced(undefined)
  assert.equal(alarms.length, 1)
  episode()
  await report.reportHeld()
  assert.equal(alarms.length, 2)
})

test('another database is one alarm that says who it is, and none for each of its certificates', async () => {
  const { alarms, episode, announced, use } = aReport()
  await announced(ALONE)
  for (const said of [UNKNOWN, SHARED, SHARED, SHARED]) {
    episode()
    await announced(said)
  }
  assert.equal(use.isShared, true)
  assert.deepEqual(alarms, [
    {
      message: 'another database uses this signer',
      reason:
        'a copy of this one in 7/00000001/16390, announced by host-b https://b.example (this one is in 7/00000001/16384); part them as docs/operations/failover.md#another-database-at-the-same-signer says',
    },
  ])
})

test('another database is an alarm again when nobody was there for an hour', async (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => now)
  const { alarms, announced, use } = aReport()
  await announced(SHARED)
  now = 1_800_000
  await announced(ALONE)
  assert.equal(use.isShared, false)
  await announced(SHARED)
  now += 3_599_999
  await announced(SHARED)
  assert.equal(alarms.length, 1)
  now += 3_600_000
  await announced(SHARED)
  assert.equal(alarms.length, 2)
})

test('who else is there is not known while the database or the signer does not answer', async () => {
  const answers: number[] = []
  const use = new SignerUseWatch({
    records: { announce: async () => SHARED },
    place: async () => {
      if (answers.length === 1) throw new Error('the database is away')
      return OWN
    },
    requester: 'host-a',
    onAnswer: (others) => answers.push(others),
  })
  await use.announce()
  assert.equal(use.isShared, true)
  await assert.rejects(use.announce(), /away/)
  assert.deepEqual([use.isShared, use.isAlone, answers], [false, false, [1, 0]])
})

test('a certificate that does not come back is named in the alarm by its serial number', async () => {
  const { report, alarms, announced } = aReport()
  report.restored().givenUp({ sequence: 7, serialNumber: '0abc', reason: 'damaged' })
  report.events().complete(new Date())
  await announced(ALONE)
  assert.match(alarms[0]?.reason ?? '', /1 certificate did not come back, the log says why: 0abc/)
})

test('what came back has an entry of the audit log, however late the thread is that makes it', async () => {
  const { report, episode } = aReport()
  episode()
  const asked: number[] = []
  report.reportTo({
    noteReconciled: async ({ certificates }) => {
      asked.push(certificates)
      return asked.length === 2
    },
  })
  await until('there is an entry', () => asked.length === 2)
  assert.deepEqual(asked, [1, 1])
})
