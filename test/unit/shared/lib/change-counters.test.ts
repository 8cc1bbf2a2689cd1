/** Announcements of changes, between threads that share memory. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allocateChangeCounters, openChangeCounters } from '../../../../src/shared/lib/shared-memory.ts'

const AUTHORIZATION = '0199a0b0-1c2d-7e3f-8a4b-5c6d7e8f9a00'
const ITS_CHALLENGE = '0199a0b0-1c2d-7e3f-8a4b-5c6d7e8f9a02'
const ANOTHER = '0199a0b0-1c2d-7e3f-8a4b-5c6d7e800110'

test('a change that one thread announces is counted for the others, and for no other id', () => {
  const memory = allocateChangeCounters()
  const [one, other] = [openChangeCounters(memory), openChangeCounters(memory)]
  const before = [other.count(AUTHORIZATION), other.count(ANOTHER)]
  one.announce(AUTHORIZATION)
  assert.deepEqual([other.count(AUTHORIZATION), other.count(ANOTHER)], [before[0]! + 1, before[1]])
})

test('an authorization and its challenges are one', () => {
  const changes = openChangeCounters(allocateChangeCounters())
  const before = changes.count(AUTHORIZATION)
  changes.announce(ITS_CHALLENGE)
  assert.notEqual(changes.count(AUTHORIZATION), before)
})

test('a change counts when it begins and when it ends, also when it fails', async () => {
  const changes = openChangeCounters(allocateChangeCounters())
  const start = changes.count(AUTHORIZATION)
  let during = start
  const failing = changes.whileChanging(AUTHORIZATION, async () => {
    during = changes.count(AUTHORIZATION)
    throw new Error('lost')
  })
  await assert.rejects(failing, /lost/)
  assert.equal(during, start + 1)
  assert.equal(changes.count(AUTHORIZATION), start + 2)
})
