/** Hashes of passwords are made one after the other, and only so many may wait. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HASHING_HERE, PasswordHasher } from '../../../src/admin/users/passwords.ts'
import { AdminError } from '../../../src/domain/admin-error.ts'
import { gate } from '../../support/gate.ts'

test('one hash is made, sixteen wait, and the next is told to come back in two seconds', async () => {
  let running = 0
  const { opened: isReleased, open: release } = gate()
  const hasher = new PasswordHasher({
    ...HASHING_HERE,
    async hash(password) {
      assert.equal(++running, 1)
      await isReleased
      running--
      return `hash of ${password}`
    },
  })
  const made = Array.from({ length: 17 }, (_, n) => hasher.hash(`${n}`))
  await assert.rejects(hasher.hash('one too many'), (error) => {
    assert.ok(error instanceof AdminError)
    assert.deepEqual([error.status, error.options.retryAfterSeconds], [429, 2])
    return true
  })
  release()
  assert.deepEqual((await Promise.all(made)).at(-1), 'hash of 16')
  assert.equal(await hasher.hash('afterwards'), 'hash of afterwards')
})

test('a flood of strangers leaves room for known callers, who go before them', async () => {
  const order: string[] = []
  const { opened: isReleased, open: release } = gate()
  const hasher = new PasswordHasher({
    ...HASHING_HERE,
    async matches(_stored, password) {
      await isReleased
      order.push(password)
      return true
    },
  })
  const strangers = Array.from({ length: 17 }, (_, n) => hasher.verify('a hash', `stranger ${n}`, 'stranger'))
  await assert.rejects(hasher.verify('a hash', 'one too many', 'stranger'), AdminError)
  const known = Array.from({ length: 16 }, (_, n) => hasher.verify('a hash', `known ${n}`, 'known'))
  await assert.rejects(hasher.verify('a hash', 'one too many', 'known'), AdminError)
  release()
  await Promise.all([...strangers, ...known])
  assert.deepEqual(order.slice(0, 3), ['stranger 0', 'known 0', 'known 1'])
  assert.deepEqual(order.slice(16, 18), ['known 15', 'stranger 1'])
})
