/** Administrators are answered while ACME clients are not: their requests may be the cure. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { type AcmeClient, registeredClient, send } from '../support/acme-client.ts'
import { administered } from '../support/administered.ts'
import { healthOf } from '../support/metrics.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('the Admin API', () => {
  const { service, as } = administered(() => sharedService('crowded'))
  const admin = as('alice')
  let client: AcmeClient
  let locker: pg.Client
  before(async () => {
    client = await registeredClient(service.directoryUrl)
    locker = new pg.Client(service.database.connection)
    await locker.connect()
    await locker.query(`
      INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                                issued_at)
      SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, '01900000-0000-7000-8000-00000000acc0',
             decode(lpad(to_hex(256 + n), 4, '0'), 'hex'), '\\x07', ARRAY['h' || n || '.example'],
             now() - interval '1 day', now() + interval '1 day', decode(lpad(to_hex(n), 8, '0'), 'hex'), now()
        FROM generate_series(1, 2) n`)
  })
  after(async () => {
    await locker.end()
  })

  /** Without a signature: refused for its form, unless what needs a statement is refused before. */
  const order = () =>
    send({
      url: client.directory['newOrder'] as string,
      headers: { 'Content-Type': 'application/jose+json' },
      body: '{}',
    })

  /** The front's connections wait for a lock until the returned function is called. */
  async function exhaustPool(): Promise<() => Promise<void>> {
    const url = `${client.kid}/orders`
    const bodies: string[] = []
    for (let i = 0; i < 6; i++) bodies.push(JSON.stringify(await client.jws(url)))
    await locker.query('BEGIN')
    await locker.query('LOCK TABLE orders IN ACCESS EXCLUSIVE MODE')
    const headers = { 'Content-Type': 'application/jose+json' }
    const answers = bodies.map((body) => send({ url, headers, body }))
    await until('clients are refused', async () => (await order()).headers['retry-after'] === '5')
    return async () => {
      await locker.query('COMMIT')
      await Promise.all(answers)
    }
  }

  async function administers(serial: string): Promise<void> {
    const maintenance = await admin.send('POST', '/maintenance', { enabled: true, reason: 'pressure' })
    assert.deepEqual([maintenance.status, maintenance.json?.maintenance_mode], [200, true], maintenance.text)
    const signing = await admin.send('POST', '/signing', { stopped: true })
    assert.deepEqual([signing.status, signing.json?.signing_stopped], [200, true], signing.text)
    const revoked = await admin.send('POST', `/certificates/${serial}/revoke`, { reason: 4 })
    assert.deepEqual([revoked.status, typeof revoked.json?.revoked_at], [200, 'string'], revoked.text)
  }

  test('answers while the pool of the fronts is exhausted', async () => {
    const release = await exhaustPool()
    try {
      await administers('0101')
      // The lock is still there: what was answered did not wait for it.
      assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/readyz` })).status, 503)
    } finally {
      await release()
    }
  })

  test('answers in maintenance, and while signing is stopped', async () => {
    await administers('0102')
    await until('every thread knows', async () => (await healthOf(service)).maintenance_mode === true)
    for (const [path, body] of [
      ['/signing', { stopped: false }],
      ['/maintenance', { enabled: false }],
    ] as const)
      assert.equal((await admin.send('POST', path, body)).status, 200)
  })
})
