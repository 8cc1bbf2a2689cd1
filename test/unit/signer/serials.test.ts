/** Serial numbers that were signed, and signatures per second. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TokenBucket } from '../../../signer/issuers.ts'
import { SignerRefusal } from '../../../signer/protocol/signer-errors.ts'
import { SerialSet } from '../../../signer/serial-tables.ts'
import { SignedSerials } from '../../../signer/signing.ts'

describe('serial numbers that were signed', () => {
  const content = (issuer: string, serial: string, sha256: string) => ({ issuer, serial, sha256 })

  test('go with one content each, issuer by issuer', () => {
    const serials = new SignedSerials(10)
    serials.claim(content('a', '41', 'content 1'))
    serials.claim(content('a', '41', 'content 1'))
    serials.claim(content('b', '41', 'content 2'))
    assert.throws(() => serials.claim(content('a', '41', 'content 2')), SignerRefusal)
  })

  test('are forgotten from the oldest on', () => {
    const serials = new SignedSerials(2)
    for (const serial of ['41', '42', '43']) serials.claim(content('a', serial, 'content 1'))
    assert.throws(() => serials.claim(content('a', '42', 'content 2')), SignerRefusal)
    serials.claim(content('a', '41', 'content 2'))
  })

  test('name the audit line once there is one, and a request under way before', async () => {
    const serials = new SignedSerials(10)
    const signing = Promise.resolve({ signature: Buffer.alloc(1), sequence: 7 })
    serials.claim(content('a', '41', 'content 1'))
    serials.begin(content('a', '41', 'content 1'), signing)
    assert.equal(serials.find(content('a', '41', 'content 1'))?.signing, signing)
    assert.throws(() => serials.find(content('a', '41', 'content 2')), SignerRefusal)
    await signing
    assert.deepEqual(serials.find(content('a', '41', 'content 1')), { sha256: 'content 1', sequence: 7 })
  })

  test('stay with their content when the request fails', async () => {
    const serials = new SignedSerials(10)
    const signing = Promise.reject(new Error('no token'))
    serials.claim(content('a', '41', 'content 1'))
    serials.begin(content('a', '41', 'content 1'), signing)
    await assert.rejects(signing)
    assert.deepEqual(serials.find(content('a', '41', 'content 1')), { sha256: 'content 1' })
    assert.throws(() => serials.find(content('a', '41', 'content 2')), SignerRefusal)
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

describe('signatures per second', () => {
  const take = (bucket: TokenBucket, now: number, times: number) =>
    Array.from({ length: times }, () => bucket.take(now)).filter(Boolean).length

  test('allow a burst of one second and then the rate', () => {
    const bucket = new TokenBucket(10)
    assert.equal(take(bucket, 5000, 50), 10)
    assert.equal(take(bucket, 5500, 50), 5)
    assert.equal(take(bucket, 60_000, 50), 10)
  })

  test('below one per second allow single signatures', () => {
    const bucket = new TokenBucket(0.5)
    assert.equal(take(bucket, 5000, 5), 1)
    assert.equal(take(bucket, 6000, 5), 0)
    assert.equal(take(bucket, 7000, 5), 1)
  })
})
