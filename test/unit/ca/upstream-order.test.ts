/** What is kept of an upstream's answers, however long they are. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Answer, UpstreamSession } from '../../../src/ca/acme-proxy/upstream-client.ts'
import { readAuthorizations, readOrder } from '../../../src/ca/acme-proxy/upstream-order.ts'
import { UpstreamNonsense } from '../../../src/ca/acme-proxy/upstream-problem.ts'

const URL_OF_ORDER = 'https://upstream.test/order'
const answer = (json: Answer['json']): Answer => ({
  json,
  body: Buffer.alloc(0),
  location: undefined,
  alternates: [],
  retryAfterMs: undefined,
})
const order = (count: number) =>
  answer({ status: 'pending', finalize: '/finalize', authorizations: Array.from({ length: count }, (_, n) => `/${n}`) })

describe('an order of an upstream', () => {
  test('has no more authorizations than names', () => {
    assert.equal(readOrder(order(2), URL_OF_ORDER, 2).authorizations.length, 2)
    assert.throws(() => readOrder(order(3), URL_OF_ORDER, 2), UpstreamNonsense)
  })

  test('leaves one challenge of each authorization in memory, and of its error a line', async () => {
    const challenge = (type: string) => ({
      type,
      url: '/challenge',
      status: 'invalid',
      token: 'token',
      error: { type: 'urn:ietf:params:acme:error:dns', detail: 'x'.repeat(100_000), more: ['x'.repeat(100_000)] },
    })
    const challenges = [challenge('tls-alpn-01'), ...Array.from({ length: 20 }, () => challenge('dns-01'))]
    const json = { status: 'invalid', identifier: { type: 'dns', value: 'a.test' }, challenges }
    const session = { post: async () => answer(json) } as unknown as UpstreamSession
    const upstream = readOrder(order(2), URL_OF_ORDER, 2)
    const kept = await readAuthorizations(session, upstream, 'dns-01')
    const types = kept.map(({ challenge: one }) => one?.type)
    assert.deepEqual(types, ['dns-01', 'dns-01'])
    assert.ok(JSON.stringify(kept).length < 4_000)
  })
})
