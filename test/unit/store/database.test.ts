/** Which database errors are "come back later" (503) and which a fault (500). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { isUnavailable } from '../../../src/store/database.ts'

function databaseError(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('said the server', 0, 'error'), { code })
}

for (const [code, what] of Object.entries({
  '57P01': 'a server that is shutting down',
  '57014': 'a statement that took too long',
  '53300': 'too many connections',
  '08006': 'a connection that failed',
}))
  test(`${what} (${code}) is unavailable`, () => assert.ok(isUnavailable(databaseError(code))))

for (const code of ['23505', '22P02', '42601', 'XX000'])
  test(`${code} is a fault, not a reason to come back`, () => assert.equal(isUnavailable(databaseError(code)), false))

test('a refused or broken connection is unavailable', () => {
  assert.ok(isUnavailable(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })))
  assert.ok(isUnavailable(new Error('Connection terminated unexpectedly')))
  assert.ok(isUnavailable(new Error('Query read timeout')))
  // What a single connection says of a host that does not answer.
  assert.ok(isUnavailable(new Error('timeout expired')))
  assert.ok(isUnavailable(new Error('Client has encountered a connection error and is not queryable')))
  assert.equal(isUnavailable(new Error('something else')), false)
})
