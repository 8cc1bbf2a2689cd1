/** Life cycles of orders and authorizations (RFC 8555 §7.1.6). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AUTHORIZATION,
  type AuthorizationStatus,
  authorizationStatusesAllowing,
} from '../../../src/domain/authorization-state.ts'
import { ORDER, orderStatus } from '../../../src/domain/order-state.ts'

const targets = (table: Record<string, Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(table).map(([status, events]) => [status, [...new Set(Object.values(events))].sort()]),
  )

test('an order moves as in the picture of §7.1.6', () => {
  assert.deepEqual(targets(ORDER), {
    pending: ['invalid', 'ready'],
    ready: ['invalid', 'processing'],
    processing: ['invalid', 'valid'],
    valid: [],
    invalid: [],
  })
})

test('an authorization moves as in the picture of §7.1.6', () => {
  assert.deepEqual(targets(AUTHORIZATION), {
    pending: ['deactivated', 'expired', 'invalid', 'valid'],
    valid: ['deactivated', 'expired', 'revoked'],
    invalid: [],
    deactivated: [],
    expired: [],
    revoked: [],
  })
})

test('only pending and valid authorizations are deactivated, expire or the like', () => {
  assert.deepEqual(authorizationStatusesAllowing('validated'), ['pending'])
  assert.deepEqual(authorizationStatusesAllowing('deactivate'), ['pending', 'valid'])
  assert.deepEqual(authorizationStatusesAllowing('expire'), ['pending', 'valid'])
  assert.deepEqual(authorizationStatusesAllowing('revoke'), ['valid'])
})

const NOW = new Date('2026-01-01T00:00:00Z')
const LATER = new Date(NOW.getTime() + 1)
const derived: [authorizations: AuthorizationStatus[], status: string][] = [
  [['pending'], 'pending'],
  [['valid', 'pending'], 'pending'],
  [['valid'], 'ready'],
  [['valid', 'valid'], 'ready'],
  [['valid', 'invalid'], 'invalid'],
  [['pending', 'invalid'], 'invalid'],
  [['valid', 'deactivated'], 'invalid'],
  [['pending', 'expired'], 'invalid'],
  [['revoked'], 'invalid'],
]
for (const [authorizations, status] of derived)
  test(`an open order whose authorizations are ${authorizations.join(', ')} is ${status}`, () => {
    assert.equal(orderStatus({ stored: 'open', expiresAt: LATER, authorizations }, NOW), status)
    assert.equal(
      orderStatus({ stored: 'open', expiresAt: NOW, authorizations }, NOW),
      'invalid',
      'but not once it has expired',
    )
  })

test('an order without authorizations is not ready but invalid', () => {
  assert.equal(orderStatus({ stored: 'open', expiresAt: LATER, authorizations: [] }, NOW), 'invalid')
})

test('what was finalized does not depend on its authorizations or expiry any more', () => {
  for (const stored of ['processing', 'valid', 'invalid'] as const)
    assert.equal(orderStatus({ stored, expiresAt: NOW, authorizations: ['invalid'] }, NOW), stored)
})
