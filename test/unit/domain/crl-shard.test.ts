/** Which part of a CRL a certificate belongs to, and the names of the parts. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { COMPLETE, crlName, shardOf } from '../../../src/domain/crl-scope.ts'

test('the last two octets of the serial number decide, whatever stands before them', () => {
  assert.equal(shardOf(Buffer.from('ff0000000103', 'hex'), 256), 3)
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

test('a complete list goes by its issuer, a part by count and number too', () => {
  assert.equal(crlName('default', COMPLETE), 'default')
  assert.equal(crlName('default', { shards: 16, shard: 3 }), 'default/16-3')
})
