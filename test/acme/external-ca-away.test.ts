/** A lone external CA that is away: orders that wait for it end in their time, and new ones wait while they are ready. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { base64url, locationOf } from '../support/acme-client.ts'
import { aServiceBehindACa, csrFor } from '../support/behind-external-ca.ts'
import { until } from '../support/until.ts'

const OVERDUE = 'the CA did not issue the certificate in time'
/** Far above the bound of an order, and far below every pause that is to be cut. */
const BOUND_MS = 45_000

describe('a lone external CA that asks for a long pause', { timeout: 900_000 }, () => {
  const place = aServiceBehindACa({ deferred_signing_timeout: 3 })

  test('an order ends within ca.deferred_signing_timeout', async () => {
    place.ca().behave('unavailable for an hour')
    const startedAt = performance.now()
    const { order } = await place.finalized()
    assert.ok(performance.now() - startedAt < BOUND_MS)
    assert.deepEqual([order.json.status, order.json.error.detail], ['invalid', OVERDUE])
    assert.match(order.json.error.type, /:serverInternal$/)
    assert.deepEqual(await place.query('SELECT FROM csr_issuances'), [])
  })
})

describe('a lone external CA that is away', { timeout: 900_000 }, () => {
  const place = aServiceBehindACa({
    external: { max_retries: 0 },
    deferred_signing_timeout: 3,
    circuit_breaker_failure_threshold: 1,
    circuit_breaker_recovery_timeout: 600,
    failover: { probe_seconds: 1 },
  })

  test('an order that was finalized ends in its time, while the circuit breaker is open', async () => {
    await place.ca().stop()
    const startedAt = performance.now()
    const { order } = await place.finalized()
    assert.ok(performance.now() - startedAt < BOUND_MS)
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
