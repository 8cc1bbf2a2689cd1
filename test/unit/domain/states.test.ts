/** Life cycles of orders and authorizations (RFC 8555 §7.1.6). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ACCOUNT,
  AUTHORIZATION,
  type AuthorizationStatus,
  BULK_REVOCATION,
  CHALLENGE,
  finalStatuses,
  ORDER,
  orderStatus,
  STORED_ORDER,
  statusAfter,
  statusesAllowing,
} from '../../../src/domain/states.ts'

const targets = (table: Record<string, Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(table).map(([status, events]) => [status, [...new Set(Object.values(events))].sort()]),
  )

test('an order moves as in the picture of §7.1.6', () => {
  // Beside the picture: a certificate that was lost is back.
  assert.deepEqual(statusesAllowing(ORDER, 'restored'), ['pending', 'ready'])
  assert.deepEqual(targets(ORDER), {
    pending: ['invalid', 'ready', 'valid'],
    ready: ['invalid', 'processing', 'valid'],
    processing: ['invalid', 'valid'],
    valid: [],
    invalid: [],
  })
})

test('an authorization moves as in the picture of §7.1.6', () =>
  assert.deepEqual(targets(AUTHORIZATION), {
    pending: ['deactivated', 'expired', 'invalid', 'valid'],
    valid: ['deactivated', 'expired', 'revoked'],
    invalid: [],
    deactivated: [],
    expired: [],
    revoked: [],
  }))

test('an account that is deactivated or revoked stays so (§7.1.6)', () =>
  assert.deepEqual(targets(ACCOUNT), { valid: ['deactivated', 'revoked'], deactivated: [], revoked: [] }))

test('a challenge that is valid or invalid stays so (§7.1.6)', () => {
  assert.deepEqual(finalStatuses(CHALLENGE), ['valid', 'invalid'])
  assert.deepEqual(statusesAllowing(CHALLENGE, 'claim'), ['pending'])
  assert.equal(statusAfter(CHALLENGE, 'claim'), 'processing')
  assert.equal(statusAfter(CHALLENGE, 'release'), 'pending')
})

test('an order is stored as open until finalize, and moves on as in the picture of §7.1.6', () =>
  assert.deepEqual(targets(STORED_ORDER), {
    open: ['invalid', 'processing', 'valid'],
    processing: ['invalid', 'valid'],
    valid: [],
    invalid: [],
  }))

test('a bulk revocation is cancelled while it lists or revokes, and has then ended', () =>
  assert.deepEqual(targets(BULK_REVOCATION), {
    matching: ['cancelled', 'refused', 'revoking'],
    revoking: ['cancelled', 'done'],
    done: [],
    refused: [],
    cancelled: [],
  }))

test('an event that leads to no one status is refused', () => {
  const table = { a: { go: 'b' }, b: { go: 'a' } }
  assert.throws(() => statusAfter(table, 'go'), /go leads to 2 statuses/)
})

test('only pending and valid authorizations are deactivated, expire or the like', () => {
  assert.deepEqual(statusesAllowing(AUTHORIZATION, 'validated'), ['pending'])
  assert.deepEqual(statusesAllowing(AUTHORIZATION, 'deactivate'), ['pending', 'valid'])
  assert.deepEqual(statusesAllowing(AUTHORIZATION, 'expire'), ['pending', 'valid'])
  assert.deepEqual(statusesAllowing(AUTHORIZATION, 'revoke'), ['valid'])
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

test('an order without authorizations is not ready but invalid', () =>
  assert.equal(orderStatus({ stored: 'open', expiresAt: LATER, authorizations: [] }, NOW), 'invalid'))

test('what was finalized does not depend on its authorizations or expiry any more', () => {
  for (const stored of ['processing', 'valid', 'invalid'] as const)
    assert.equal(orderStatus({ stored, expiresAt: NOW, authorizations: ['invalid'] }, NOW), stored)
})
