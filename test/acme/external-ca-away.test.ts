/** A lone external CA that is away: orders that wait for it end in their time, and new ones wait while they are ready. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { base64url, locationOf, send } from '../support/acme-client.ts'
import { aServiceBehindACa, csrFor } from '../support/behind-external-ca.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const OVERDUE = 'the CA did not issue the certificate in time'

describe('a lone external CA that asks for a long pause', () => {
  const place = aServiceBehindACa({ deferred_signing_timeout: 3 })

  test('an order ends within ca.deferred_signing_timeout', async () => {
    place.ca().behave('unavailable for an hour')
    const { order } = await place.finalized()
    assert.deepEqual([order.json.status, order.json.error.detail], ['invalid', OVERDUE])
    assert.match(order.json.error.type, /:serverInternal$/)
    assert.deepEqual(await place.query('SELECT FROM csr_issuances'), [])
  })
})

describe('a lone external CA that is away', () => {
  const place = aServiceBehindACa({
    external: { max_retries: 0 },
    deferred_signing_timeout: 3,
    circuit_breaker_failure_threshold: 1,
    circuit_breaker_recovery_timeout: 600,
    failover: { probe_seconds: 1 },
  })

  test('an order that was finalized ends in its time, while the circuit breaker is open', async () => {
    await place.ca().stop()
    const { order } = await place.finalized()
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

    await place.ca().start()
    const accepted = await until('a finalize', async () => {
      const answer = await finalize()
      return answer.status !== 503 && answer
    })
    assert.equal(accepted.status, 200, accepted.text)
    assert.equal((await place.client().settled(url)).json.status, 'valid')
  })
})

describe('a lone external CA that nobody has asked for a certificate', () => {
  const place = aServiceBehindACa({ failover: { probe_seconds: 1 } })
  const reply = (at: string, baseUrl = place.service().baseUrl) => send({ method: 'GET', url: `${baseUrl}/${at}` })
  const UP = { status: 'ok', backends: { external: { status: 'ok' } } }
  const AWAY = { status: 'error', reason: 'CA backend unavailable', backends: { external: { status: 'error' } } }

  test('an instance is ready while the CA answers, and not while it is away', async () => {
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

  test('an instance that starts while the CA is away is not ready, and gets ready by itself', async () => {
    await Promise.all([place.ca().stop(), place.service().stop()])
    const service = await startTestService({ fronts: 1, continueFrom: place.service(), config: place.config() })
    try {
      assert.equal((await reply('readyz', service.baseUrl)).status, 503)
      await place.ca().start()
      await until('ready', async () => (await reply('readyz', service.baseUrl)).status === 200)
    } finally {
      await service.stop()
    }
  })
})
