import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SerialSet } from '../../../signer/crl-policy.ts'
import { SignerRefusal } from '../../../signer/protocol/signer-errors.ts'
import { SignedSerials } from '../../../signer/signing.ts'

describe('serial numbers that were signed', () => {
  test('go with one content each, issuer by issuer', () => {
    const serials = new SignedSerials(10)
    serials.claim('a', '41', 'content 1')
    serials.claim('a', '41', 'content 1')
    serials.claim('b', '41', 'content 2')
    assert.throws(() => serials.claim('a', '41', 'content 2'), SignerRefusal)
  })

  test('are forgotten from the oldest on', () => {
    const serials = new SignedSerials(2)
    for (const serial of ['41', '42', '43']) serials.claim('a', serial, 'content 1')
    assert.throws(() => serials.claim('a', '42', 'content 2'), SignerRefusal)
    serials.claim('a', '41', 'content 2')
  })
})

describe('serial numbers of one list', () => {
  const serial = (number: number) => {
    const octets = Buffer.alloc(16, 0x41)
    octets.writeUInt32BE(number, 4)
    return octets
  }

  test('are each new once, as the list grows', () => {
    const serials = new SerialSet()
    for (let n = 0; n < 100_000; n++) assert.ok(serials.add(serial(n)), String(n))
    for (let n = 0; n < 100_000; n += 97) assert.ok(!serials.add(serial(n)), String(n))
  })

  test('differ by their length too', () => {
    const serials = new SerialSet()
    assert.ok(serials.add(Buffer.of(1)))
    assert.ok(serials.add(Buffer.of(1, 0)))
    assert.ok(!serials.add(Buffer.of(1)))
  })
})
