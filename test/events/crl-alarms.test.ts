/** A CRL that cannot be published, or is overdue, is an event for whoever wants alarms. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { administered } from '../support/administered.ts'
import { healthOf } from '../support/metrics.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('alarms of CRLs', () => {
  const { service, sql } = administered(() => sharedService('alarms'))
  const run = (text: string) => sql<Record<string, unknown>>(text)
  before(async () => {
    await run(`INSERT INTO event_consumers (name, kinds) VALUES ('siem', '{alarm,crl.publication}')`)
  })

  const told = async () =>
    (await sql<{ subject: string; data: { message: string; crl: string; reason: string } }>(
      `SELECT subject, data FROM event_deliveries WHERE consumer = 'siem' AND kind = 'alarm' ORDER BY sequence`,
    )) ?? []
  const toldOf = (message: string) =>
    until(`the alarm: ${message}`, async () => (await told()).find(({ data }) => data.message === message))

  test('one that the database does not take is told after a few attempts, and one past its end at once', async () => {
    // As with a full disk: what exists can be read, and nothing can be added.
    await run('ALTER TABLE crl_pieces ADD CONSTRAINT full_disk CHECK (false) NOT VALID')
    await run(`UPDATE crls SET this_update = now() - interval '2 days', next_update = now() - interval '1 minute'`)
    const overdue = await toldOf('a CRL is overdue')
    assert.deepEqual([overdue.subject, overdue.data.crl], ['crl default', 'default'])
    assert.match(overdue.data.reason, /nextUpdate is 2/)
    const failing = await toldOf('a CRL cannot be published')
    assert.match(failing.data.reason, /full_disk/)
    assert.equal((await told()).length, 2)
    const { stale, status } = await until('health says so', async () => {
      const { crl } = (await healthOf(service)).checks
      return crl.stale && crl
    })
    assert.deepEqual([status, stale], ['error', true])
  })

  test('once it is published again, that is an event too', async () => {
    const published = () =>
      run(`SELECT data FROM event_deliveries WHERE consumer = 'siem' AND kind = 'crl.publication' AND data #>> '{row,number}' =
      (SELECT number::text FROM crls WHERE next_update > now())`)
    assert.deepEqual(await published(), [])
    await run('ALTER TABLE crl_pieces DROP CONSTRAINT full_disk')
    await until('it is published', async () => (await published()).length === 1)
    assert.equal((await told()).length, 2)
  })
})
