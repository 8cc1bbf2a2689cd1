/** The CA backend behind stop switch and circuit breaker: whose fault counts against it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CaError, type StreamedTbs } from '../../../src/ca/backend.ts'
import { createCircuitBreaker, guardBackend } from '../../../src/ca/guarded-backend.ts'
import { aCaBackend } from '../../support/cas/ca-backend.ts'

/** Reads the pieces, and calls whatever goes wrong a failure of its own, as a backend over a connection does. */
const reading = aCaBackend({
  signCertificate: () => Promise.reject(new CaError('the connection is gone', { retryable: true })),
  async signCrl(_issuer, { pieces }) {
    try {
      for await (const piece of pieces) assert.ok(piece)
    } catch (cause) {
      throw new CaError('the pieces broke off', { retryable: true, cause })
    }
    return Buffer.from('signature')
  },
})

const OPTIONS = { timeoutMs: 1000, requester: 'test' }
const list = (pieces: AsyncIterable<Buffer>): StreamedTbs => ({
  signatureAlgorithm: 'SHA256withECDSA',
  length: 1,
  pieces,
})
async function* good() {
  yield Buffer.of(0)
}

function setUp() {
  let opened = 0
  const events = { opened: () => void opened++, closed: () => {} }
  const breaker = createCircuitBreaker({ failures: 2, recoveryMs: 60_000 }, events)
  return { backend: guardBackend(reading, breaker, () => false), opened: () => opened }
}

describe('a guarded backend', () => {
  test('signs a list whose pieces come', async () => {
    const { backend } = setUp()
    assert.equal((await backend.signCrl('x', list(good()), OPTIONS)).toString(), 'signature')
  })
  test('does not answer for the pieces of a list: their error comes back as it is, and counts for nothing', async () => {
    const { backend, opened } = setUp()
    const fault = new Error('the database is away')
    const broken = {
      async *[Symbol.asyncIterator]() {
        yield* good()
        throw fault
      },
    }
    for (let i = 0; i < 4; i++) await assert.rejects(backend.signCrl('x', list(broken), OPTIONS), fault)
    assert.equal(opened(), 0)
    assert.equal(backend.outage(), undefined)
  })
  test('is left alone after failures of its own', async () => {
    const { backend, opened } = setUp()
    for (let i = 0; i < 2; i++) await assert.rejects(backend.signCertificate('x', Buffer.of(0), OPTIONS), CaError)
    assert.equal(opened(), 1)
    assert.match(backend.outage()?.reason ?? '', /not available/)
  })
})
