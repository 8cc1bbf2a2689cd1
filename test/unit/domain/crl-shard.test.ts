/** Which part of a CRL a certificate belongs to, and the names of the parts. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { COMPLETE, crlName, octetsOf, shardOf } from '../../../src/domain/crl-scope.ts'

test('the last two octets of the serial number decide, whatever stands before them', () => {
  assert.equal(shardOf(Buffer.from('ff0000000103', 'hex'), 256), 3)
  assert.equal(shardOf(Buffer.of(5), 4), 1, 'of a former server that counted')
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 18 }),
      fc.nat(0xffff),
      fc.integer({ min: 1, max: 1024 }),
      (front, tail, shards) => {
        const serial = Buffer.concat([front, Buffer.of(tail >> 8, tail & 0xff)])
        assert.equal(shardOf(serial, shards), tail % shards)
      },
    ),
  )
})

test('a part is counted and read by the last octets that its serial numbers can have', () => {
  assert.deepEqual(octetsOf(COMPLETE), [[0, 255]])
  assert.deepEqual(octetsOf({ shards: 128, shard: 3 }), [
    [3, 3],
    [131, 131],
  ])
  assert.deepEqual(octetsOf({ shards: 1024, shard: 259 }), [[3, 3]])
  assert.equal(octetsOf({ shards: 12, shard: 7 }).length, 64)
  fc.assert(
    fc.property(fc.nat(0xffff), fc.integer({ min: 1, max: 1024 }), (tail, shards) => {
      const serial = Buffer.of(tail >> 8, tail & 0xff)
      const own = octetsOf({ shards, shard: shardOf(serial, shards) })
      assert.ok(own.some(([first, last]) => serial[1]! >= first && serial[1]! <= last))
    }),
  )
})

test('a complete list goes by its issuer, a part by count and number too', () => {
  assert.equal(crlName('default', COMPLETE), 'default')
  assert.equal(crlName('default', { shards: 16, shard: 3 }), 'default/16-3')
})
