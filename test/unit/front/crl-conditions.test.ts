/** What a client that has a list already gets for a date (RFC 9110 §13.1.3), where clocks were ahead. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Exchange } from '../../../src/front/exchange.ts'
import { crlReplyTo, type OperationsOptions } from '../../../src/front/operations.ts'

const unused = () => assert.fail('not asked for')

const NOW = Date.parse('2026-05-01T12:00:00Z')
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** @param madeAt thisUpdate of the list */
function reply(madeAt: number, since: number | undefined) {
  const crl = { etag: '"1-1"', thisUpdateMs: madeAt, nextUpdateMs: madeAt + DAY_MS, der: Buffer.from([0x30, 0]) }
  const header = (name: string) =>
    name === 'if-modified-since' && since !== undefined ? new Date(since).toUTCString() : undefined
  const exchange = { http: { method: 'GET', header }, now: new Date(NOW), scheme: 'http', requestId: 'x' }
  const options = {
    securityHeaders: { http: [], https: [] },
    crl: { find: () => crl, isWithheld: unused, isInParts: unused, maxAgeSeconds: 60 },
  }
  const acme = { problem: unused, notFound: unused }
  return crlReplyTo('', exchange as unknown as Exchange, options as unknown as OperationsOptions, acme)
}
const status = (madeAt: number, since: number) => reply(madeAt, since).status

test('the date of the list, and a later one, is 304; an earlier one is not', () => {
  const madeAt = NOW - 10 * MINUTE_MS
  assert.deepEqual(
    [madeAt, NOW, NOW + 2 * MINUTE_MS, madeAt - 1000].map((since) => status(madeAt, since)),
    [304, 304, 304, 200],
  )
})

test('the date of a list that was made while clocks were ahead hides no list of now', () => {
  for (const days of [1, 400]) assert.equal(status(NOW - MINUTE_MS, NOW + days * DAY_MS), 200)
})

test('a list is never said to be of a time that has not come (§8.8.2.1)', () => {
  const { headers } = reply(NOW + DAY_MS, undefined)
  assert.equal(headers.find(([name]) => name === 'Last-Modified')?.[1], new Date(NOW).toUTCString())
})
