/** Random octets from a pool: nobody gets what another has, whatever lengths are taken. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { randomOctets } from '../../../../src/shared/lib/random.ts'

test('octets have the length that was asked for, and do not change when more are taken', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 4096 }), { maxLength: 20 }), (lengths) => {
      const taken = lengths.map((length) => randomOctets(length))
      const before = taken.map((octets) => octets.toString('hex'))
      for (let i = 0; i < 3; i++) randomOctets(4096)
      assert.deepEqual(
        taken.map((octets) => octets.toString('hex')),
        before,
      )
      assert.deepEqual(
        taken.map(({ length }) => length),
        lengths,
      )
    }),
  )
})

test('no eight octets come twice in 100,000 takes, across many refills', () => {
  const seen = new Set(Array.from({ length: 100_000 }, () => randomOctets(8).toString('hex')))
  assert.equal(seen.size, 100_000)
})

test('who writes into what they took changes nobody else’s', () => {
  const mine = randomOctets(16)
  const next = randomOctets(16)
  const before = next.toString('hex')
  mine.fill(0)
  assert.equal(next.toString('hex'), before)
})
