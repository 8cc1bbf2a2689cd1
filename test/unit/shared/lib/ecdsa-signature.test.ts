/** r and s side by side (RFC 7518 §3.4, PKCS #11) as Ecdsa-Sig-Value (RFC 3279 §2.2.3). */

import assert from 'node:assert/strict'
import { generateKeyPairSync, sign, verify } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { encodeEcdsaSignature } from '../../../../src/shared/lib/encoding.ts'

const data = Buffer.from('to be signed')

const CURVES = [
  ['P-256', 'sha256', 32],
  ['P-384', 'sha384', 48],
  ['P-521', 'sha512', 66],
] as const

/** A minimal INTEGER, and what follows it. */
function integer(der: Buffer): [bigint, Buffer] {
  const [tag, length] = [der.readUInt8(0), der.readUInt8(1)]
  assert.equal(tag, 0x02)
  const content = der.subarray(2, 2 + length)
  assert.equal(content.length, length)
  assert.ok(content.readUInt8(0) < 0x80, 'not negative')
  assert.ok(length === 1 || content.readUInt8(0) !== 0 || content.readUInt8(1) >= 0x80, 'minimal')
  return [BigInt(`0x${content.toString('hex')}`), der.subarray(2 + length)]
}

function contentOf(der: Buffer): Buffer {
  assert.equal(der.readUInt8(0), 0x30)
  const long = der.readUInt8(1) === 0x81
  const content = der.subarray(long ? 3 : 2)
  assert.equal(content.length, der.readUInt8(long ? 2 : 1))
  assert.equal(long, content.length > 127, 'the shortest length')
  return content
}

for (const [namedCurve, hash, octets] of CURVES)
  describe(`an ECDSA signature of ${namedCurve}`, () => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve })
    const p1363 = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const
    const raw = sign(hash, data, { key: privateKey, dsaEncoding: 'ieee-p1363' })

    test('verifies in the form of X.509', () => assert.ok(verify(hash, data, publicKey, encodeEcdsaSignature(raw))))

    test('is in DER, whatever zeros r and s begin with', () => {
      const half = fc.uint8Array({ minLength: octets, maxLength: octets })
      fc.assert(
        fc.property(half, half, fc.nat(octets), fc.nat(octets), (r, s, zerosR, zerosS) => {
          r.fill(0, 0, zerosR)
          s.fill(0, 0, zerosS)
          const [first, rest] = integer(contentOf(encodeEcdsaSignature(Buffer.concat([r, s]))))
          const [second, end] = integer(rest)
          assert.equal(first, BigInt(`0x${Buffer.from(r).toString('hex')}`))
          assert.equal(second, BigInt(`0x${Buffer.from(s).toString('hex')}`))
          assert.equal(end.length, 0)
        }),
      )
    })

    test('gets the same verdict as with r and s side by side, whatever is changed in it', () => {
      const change = fc.record({ at: fc.nat(2 * octets - 1), octet: fc.nat(255), to: fc.nat(2 * octets) })
      fc.assert(
        fc.property(change, ({ at, octet, to }) => {
          const changed = Buffer.from(raw).fill(octet, at, Math.max(at, to))
          assert.equal(verify(hash, data, publicKey, encodeEcdsaSignature(changed)), verify(hash, data, p1363, changed))
        }),
      )
    })
  })
