/** A backend that issues from a CSR behind its circuit breaker: what counts against it, and how long it is left alone. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { CaError } from '../../../src/ca/backend.ts'
import type { CsrBackend } from '../../../src/ca/csr-backend.ts'
import { createCircuitBreaker, guardCsrBackend } from '../../../src/ca/guarded-backend.ts'
import { ISSUANCE_REQUEST } from '../../support/cas/issuance-request.ts'

const FIRST = { isRepeated: false, isAbandoned: false }
const HOUR_MS = 3_600_000

describe('a guarded backend that issues from a CSR', () => {
  let told: number[]
  let error: CaError
  beforeEach(() => {
    told = []
  })

  function guarded(failures = 1) {
    const backend: CsrBackend = {
      name: 'scripted',
      stepTimeoutMs: 1_000,
      advance: () => Promise.reject(error),
      revoke: async () => undefined,
      checkHealth: async () => undefined,
      close: async () => undefined,
    }
    const breaker = createCircuitBreaker({ failures, recoveryMs: 60_000 }, { opened() {}, closed() {} })
    const { signal } = new AbortController()
    return guardCsrBackend(
      backend,
      breaker,
      signal,
      () => undefined,
      (waitMs) => void told.push(waitMs),
    )
  }
  const failing = (known: ReturnType<typeof guarded>) =>
    assert.rejects(known.advance(ISSUANCE_REQUEST, undefined, FIRST), (thrown) => thrown === error)

  test('is left alone after a failure, and may be asked once a probe has found it', async () => {
    error = new CaError('away', { retryable: true })
    const known = guarded()
    await failing(known)
    assert.ok(known.retryAfterMs() > 0 && known.newRetryAfterMs() > 0)
    await known.checkHealth(1_000)
    assert.deepEqual([known.retryAfterMs(), known.newRetryAfterMs()], [0, 0])
    assert.deepEqual([told[0] !== 0, told[1]], [true, 0])
  })

  test('that limits its rate is kept from new orders, for an hour at most, and is not away', async () => {
    error = new CaError('too many', { retryable: true, pauseMs: 24 * HOUR_MS })
    const known = guarded()
    await failing(known)
    error = new CaError('too many', { retryable: true, pauseMs: 0 })
    await failing(known)
    assert.equal(known.retryAfterMs(), 0)
    assert.equal(told.length, 2)
    for (const waitMs of [...told, known.newRetryAfterMs()])
      assert.ok(waitMs > HOUR_MS / 2 && waitMs <= HOUR_MS, String(waitMs))
  })

  test('that fails for one issuance again and again is asked for others; three that fail leave it alone', async () => {
    error = new CaError('no', { retryable: true })
    const known = guarded(3)
    for (let n = 0; n < 10; n++) await failing(known)
    assert.equal(known.retryAfterMs(), 0)
    for (const certificateId of ['another', 'a third'])
      await assert.rejects(known.advance({ ...ISSUANCE_REQUEST, certificateId }, undefined, FIRST))
    assert.ok(known.retryAfterMs() > 0)
  })
})
