/** When two new-order requests are equal. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type OrderRequestFacts, orderRequestKey } from '../../../src/domain/order-request.ts'
import { isUuid } from '../../../src/shared/lib/uuid.ts'

const REQUEST: OrderRequestFacts = {
  accountId: '0190c4b2-0000-7000-8000-00000000abc0',
  identifiers: [
    { type: 'dns', value: 'a.example' },
    { type: 'dns', value: '*.b.example' },
  ],
  profile: 'default',
  notBefore: undefined,
  notAfter: undefined,
  replaces: undefined,
}
const at = new Date('2026-01-01T00:00:00Z')

describe('the key of a new-order request', () => {
  test('is a UUID, the same each time', () => {
    assert.ok(isUuid(orderRequestKey(REQUEST)))
    assert.equal(orderRequestKey(REQUEST), orderRequestKey({ ...REQUEST }))
  })

  test('does not depend on the order of the identifiers', () =>
    assert.equal(
      orderRequestKey({ ...REQUEST, identifiers: REQUEST.identifiers.toReversed() }),
      orderRequestKey(REQUEST),
    ))

  const different: Record<string, Partial<OrderRequestFacts>> = {
    'another account': { accountId: '0190c4b2-0000-7000-8000-00000000abd0' },
    'one identifier fewer': { identifiers: REQUEST.identifiers.slice(1) },
    'another type of identifier': {
      identifiers: [{ type: 'ip', value: 'a.example' }, ...REQUEST.identifiers.slice(1)],
    },
    'another profile': { profile: 'short' },
    'a notBefore': { notBefore: at },
    'a notAfter': { notAfter: at },
    'a certificate to replace': { replaces: 'AQ.AQ' },
  }
  test('is another one with each difference', () => {
    const keys = Object.values(different).map((over) => orderRequestKey({ ...REQUEST, ...over }))
    assert.equal(new Set([orderRequestKey(REQUEST), ...keys]).size, keys.length + 1)
  })
})
