/** Which database errors are "come back later" (503) and which a fault (500). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { isUnavailable } from '../../../src/store/database.ts'
import { diskTroubleOf, endsSession, repeated } from '../../../src/store/sqlstate.ts'

function databaseError(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('said the server', 0, 'error'), { code })
}

for (const [code, what] of Object.entries({
  '57P01': 'a server that is shutting down',
  '57014': 'a statement that took too long',
  '53300': 'too many connections',
  '08006': 'a connection that failed',
  '25006': 'a session that is read-only',
  '0A000': 'a table that a standby does not have',
  '26000': 'a prepared statement that the session does not know',
  '25P04': 'a transaction that lasted too long',
  '40P01': 'a deadlock that was lost again and again',
  '40001': 'a serialisation that was lost again and again',
  '55P03': 'a lock that was not granted in time',
}))
  test(`${what} (${code}) is unavailable`, () => assert.ok(isUnavailable(databaseError(code))))

for (const code of ['23505', '22P02', '42601', 'XX000'])
  test(`${code} is a fault, not a reason to come back`, () => assert.equal(isUnavailable(databaseError(code)), false))

const STAYS = ['57014', '53100', '40P01', '40001', '55P03', '23505', '42601']
const ENDS = ['08006', '57P01', '57P05', '25P03', '25P04', '25006', '0A000', '26000', '42P05']

for (const [code, file, trouble] of [
  ['53100', 'md.c', 'full'],
  ['53100', 'xlog.c', 'full'],
  ['58030', 'fd.c', 'failing'],
  // EROFS and EDQUOT, as errcode_for_file_access of PostgreSQL has them.
  ['42501', 'md.c', 'failing'],
  ['XX000', 'md.c', 'failing'],
  ['XX000', 'slru.c', 'failing'],
  ['42501', 'aclchk.c', undefined],
  ['XX000', 'nodeModifyTable.c', undefined],
  ['23505', 'nbtinsert.c', undefined],
] as const)
  test(`${code} from ${file} says of the disk: ${trouble ?? 'nothing'}`, () => {
    const error = Object.assign(databaseError(code), { file })
    assert.equal(diskTroubleOf(error), trouble)
    assert.equal(isUnavailable(error), trouble !== undefined)
  })

test('a session ends with an error after which it can never work again, and with no other', () => {
  const ended = [...STAYS, ...ENDS].filter((code) => endsSession(databaseError(code)))
  assert.deepEqual(ended, ENDS)
  assert.ok(endsSession(new Error('Connection terminated unexpectedly')))
})

test('work that lost a deadlock or a serialisation is repeated twice', async () => {
  for (const code of ['40P01', '40001', '23505']) {
    let runs = 0
    const work = async () => {
      runs += 1
      throw databaseError(code)
    }
    await assert.rejects(repeated(work), { code })
    assert.equal(runs, code === '23505' ? 1 : 3)
  }
})

test('a refused or broken connection is unavailable', () => {
  assert.ok(isUnavailable(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })))
  assert.ok(isUnavailable(new Error('Connection terminated unexpectedly')))
  assert.ok(isUnavailable(new Error('Query read timeout')))
  // What a single connection says of a host that does not answer.
  assert.ok(isUnavailable(new Error('timeout expired')))
  assert.ok(isUnavailable(new Error('Client has encountered a connection error and is not queryable')))
  assert.equal(isUnavailable(new Error('something else')), false)
})
