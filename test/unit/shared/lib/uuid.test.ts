/** Version 7 UUIDs (RFC 9562 §5.7). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isUuid, uuidv7 } from '../../../../src/shared/lib/uuid.ts'

test('time, version and variant stand where RFC 9562 §5.7 has them', () => {
  const id = uuidv7(0x017f22e279b0)
  assert.match(id, /^017f22e2-79b0-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.equal(isUuid(id), true)
})

test('keys sort by the time of their making and never repeat', () => {
  const ids = Array.from({ length: 5_000 }, (_, i) => uuidv7(1_700_000_000_000 + Math.floor(i / 10)))
  assert.equal(new Set(ids).size, ids.length)
  const times = ids.map((id) => id.slice(0, 13))
  assert.deepEqual(times, [...times].sort())
})

test('an id has one spelling', () => {
  const id = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f'
  assert.equal(isUuid(id), true)
  for (const other of [id.toUpperCase(), `{${id}}`, id.replaceAll('-', ''), `${id} `, id.slice(1), ''])
    assert.equal(isUuid(other), false)
})
