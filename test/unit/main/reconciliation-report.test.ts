/** What is told of what came back from the signer: alarms and entries of the audit log. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { Report } from '../../../src/main/ca/start-reconciliation.ts'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { until } from '../../support/until.ts'

function aReport() {
  const alarms: { message: string; reason: string }[] = []
  const report = new Report({
    metrics: createMetrics(),
    log: pino({ level: 'silent' }),
    eventWriter: { write: ({ data }) => void alarms.push(data as (typeof alarms)[number]) },
    isStopping: () => false,
  })
  const episode = () => {
    report.restored().certificate({ serialNumber: '01', names: [] } as never)
    report.events().whole(new Date())
  }
  return { report, alarms, episode }
}

test('a signer that another database uses, too, is one alarm that says so, not one for each certificate', () => {
  const { alarms, episode } = aReport()
  for (let times = 0; times < 5; times++) episode()
  assert.deepEqual(
    alarms.map(({ message }) => message),
    ['the database was behind its signer', 'another database uses this signer'],
  )
  assert.match(alarms[0]?.reason ?? '', /1 certificate and 0 revocations are back .*the end of the audit log went back/)
})

test('a certificate that does not come back is named in the alarm by its serial number', () => {
  const { report, alarms } = aReport()
  report.restored().givenUp({ sequence: 7, serialNumber: '0abc', reason: 'damaged' })
  report.events().whole(new Date())
  assert.match(alarms[0]?.reason ?? '', /1 certificate did not come back, the log says why: 0abc/)
})

test('what came back has an entry of the audit log, however late the thread is that makes it', async () => {
  const { report, episode } = aReport()
  episode()
  const asked: number[] = []
  report.tellAudit({
    noteReconciled: async ({ certificates }) => {
      asked.push(certificates)
      return asked.length === 2
    },
  })
  await until('there is an entry', () => asked.length === 2)
  assert.deepEqual(asked, [1, 1])
})
