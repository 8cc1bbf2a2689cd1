/** A lone external CA that is slow or away: orders that wait for it end in their time, and new ones wait while they are ready. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { readEvent, type StoredEvent } from '../../src/domain/stored-event.ts'
import { base64url, locationOf, send } from '../support/acme-client.ts'
import { aServiceBehindACa, csrFor } from '../support/cas/behind-external-ca.ts'
import { until } from '../support/until.ts'

const OVERDUE = 'the CA did not issue the certificate in time'

describe('a lone external CA', () => {
  const place = aServiceBehindACa(
    {
      external: { max_retries: 0, timeout_seconds: 3 },
      deferred_signing_timeout: 5,
      circuit_breaker_failure_threshold: 1,
      circuit_breaker_recovery_timeout: 600,
      failover: { probe_seconds: 1 },
    },
    { config: { notifications: { enabled: true } } },
  )
  const { certificatesOf, query } = place
  before(async () => {
    await query(`UPDATE accounts SET contacts = '{mailto:holder@example.com}'`)
    // Nobody delivers to it, so its events can be read.
    const kinds = '{certificate.issuance,certificate.issuance_failed,certificate.revocation,alarm}'
    await query(`INSERT INTO event_consumers (name, kinds) VALUES ('reader', $1)`, [kinds])
  })

  /** After a failure the CA is left alone until it has answered a probe. */
  const finalizedOnceUp = async () => {
    const { order, name } = await place.ready()
    const csr = base64url(await csrFor(name))
    await until('the CA is asked', async () => {
      return (await place.client().post(order.json.finalize, { csr })).status === 200
    })
    const url = locationOf(order)
    return { order: await place.client().settled(url), name, url }
  }

  const reply = (at: string) => send({ method: 'GET', url: `${place.service().baseUrl}/${at}` })
  const UP = { status: 'ok', backends: { external: { status: 'ok' } } }
  const AWAY = { status: 'error', reason: 'CA backend unavailable', backends: { external: { status: 'error' } } }

  test('an instance that nobody has asked is ready while the CA answers, and not while it is away', async () => {
    assert.deepEqual((await reply('healthz')).json.checks.ca_backend, UP)
    await place.ca().stop()
    const health = await until('the health endpoint says so', async () => {
      const answer = await reply('healthz')
      return answer.status === 503 && answer
    })
    assert.deepEqual(health.json.checks.ca_backend, AWAY)
    assert.deepEqual((await reply('readyz')).json, { ready: false, reason: 'CA backend unavailable' })
    await place.service().untilLogged('why', (line) => line['event'] === 'backend_unreachable')
    await place.ca().start()
    await until('ready again', async () => (await reply('readyz')).status === 200)
  })

  test('pending for ever: the order fails in time, and what comes later is recorded and revoked', async () => {
    place.ca().behave('pending')
    place.ca().deliver(false)
    const { order, url } = await finalizedOnceUp()
    assert.equal(order.json.status, 'invalid')
    assert.match(order.json.error.detail, /in time/)
    place.ca().deliver(true)
    const [row] = await until('the late certificate', async () => {
      const rows = await certificatesOf(url)
      return rows.length > 0 && rows
    })
    assert.ok(row?.['revoked_at'])
    const serial = Buffer.from(row?.['serial_number'] as Buffer).toString('hex')
    await until('its revocation at the CA', () => place.ca().revoked.includes(serial))
    assert.equal((await place.client().post(url)).json.certificate, undefined)
    const lineOf = (event: string) => place.service().untilLogged(event, (line) => line['event'] === event)
    const lines = [await lineOf('issuance_abandoned'), await lineOf('late_certificate')]
    assert.deepEqual(
      lines.map((line) => line['serialNumber']),
      [undefined, serial],
    )

    const rows = await query(
      `SELECT event_id AS id, kind, subject, account_id AS "accountId", occurred_at AS "occurredAt", data
         FROM event_deliveries WHERE consumer = 'reader' AND subject = $1 ORDER BY sequence`,
      [row?.['id']],
    )
    const told = rows.map((stored) => readEvent(stored as unknown as StoredEvent) as { kind: string; data: object })
    assert.deepEqual(
      told.map(({ kind, data }) => ({ kind, isRevoked: Object(data).revoked_at != null, reason: Object(data).reason })),
      [
        { kind: 'certificate.issuance', isRevoked: true, reason: undefined },
        { kind: 'certificate.revocation', isRevoked: false, reason: 'cessationOfOperation' },
      ],
    )
    const mails = await until('the mail about the revocation', async () => {
      const rows = await query('SELECT notification_type FROM notifications ORDER BY id')
      const types = rows.map(({ notification_type: type }) => type)
      return types.includes('revocation_succeeded') && types
    })
    assert.ok(mails.includes('delivery_failed'))
    assert.ok(!mails.includes('delivery_succeeded'))
  })

  test('a finding of the lint is a line of the log, and the certificate is delivered', async () => {
    place.ca().behave('short serial')
    // What a busy machine does not issue in the time of the orders is asked for once more.
    const { url } = await until('a certificate in time', async () => {
      const ended = await finalizedOnceUp()
      return ended.order.json.status === 'valid' && ended
    })
    const line = await place
      .service()
      .untilLogged('a warning', ({ event, orderId }) => event === 'received_lint' && orderId === url.split('/').at(-1))
    assert.match(JSON.stringify(line['findings']), /serial number is shorter/)
    assert.ok(!place.service().log.some(({ event, orderId }) => event === 'alarm' && orderId === url.split('/').at(-1)))
  })

  test('slow drip: the order fails with an alarm, which names no serial number before there is one', async () => {
    place.ca().behave('slow drip')
    const { order, url } = await finalizedOnceUp()
    assert.equal(order.json.status, 'invalid')
    const alarm = await place.service().untilLogged('an alarm', (line) => line['event'] === 'alarm')
    assert.match(JSON.stringify(alarm), /no answer within 3 seconds/)
    const failed = await place.service().untilLogged('the failure', (line) => line['event'] === 'backend_failed')
    for (const line of [alarm, failed]) assert.deepEqual([line['backend'], 'serialNumber' in line], ['external', false])
    const events = await until('its event', async () => {
      const rows = await query(
        `SELECT data ->> 'order_id' AS order, data ? 'serial_number' AS has_number FROM event_deliveries
          WHERE kind = 'alarm' AND consumer = 'reader'`,
      )
      return rows.length > 0 && rows
    })
    assert.deepEqual(events, [{ order: url.split('/').at(-1), has_number: false }])
  })

  test('an order ends within ca.deferred_signing_timeout', async () => {
    place.ca().behave('unavailable for an hour')
    const { order } = await finalizedOnceUp()
    assert.deepEqual([order.json.status, order.json.error.detail], ['invalid', OVERDUE])
    assert.match(order.json.error.type, /:serverInternal$/)
    assert.deepEqual(await place.query('SELECT FROM csr_issuances'), [])
  })

  test('an order that was finalized ends in its time, while the circuit breaker is open', async () => {
    await place.ca().stop()
    const { order } = await finalizedOnceUp()
    assert.deepEqual([order.json.status, order.json.error.detail], ['invalid', OVERDUE])
  })

  test('a finalize is 503 with Retry-After meanwhile, and its order stays ready until the CA is back', async () => {
    const { order, name } = await place.ready()
    const csr = base64url(await csrFor(name))
    const finalize = () => place.client().post(order.json.finalize, { csr })
    const refused = await finalize()
    assert.equal(refused.status, 503, refused.text)
    assert.equal(refused.json.detail, 'the CA is not available; the order stays ready')
    const seconds = Number(refused.headers['retry-after'])
    assert.ok(seconds > 0 && seconds <= 601, `Retry-After: ${seconds}`)
    const url = locationOf(order)
    assert.equal((await place.client().post(url)).json.status, 'ready')

    place.ca().behave('issue')
    await place.ca().start()
    const accepted = await until('a finalize', async () => {
      const answer = await finalize()
      return answer.status !== 503 && answer
    })
    assert.equal(accepted.status, 200, accepted.text)
    assert.equal((await place.client().settled(url)).json.status, 'valid')
  })
})
