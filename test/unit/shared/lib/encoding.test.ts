/** base64url, JSON without duplicate members, and ECDSA signatures: one text for one value. */

import assert from 'node:assert/strict'
import { generateKeyPairSync, sign, verify } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  decodeBase64url,
  encodeBase64url,
  encodeEcdsaSignature,
  isBase64url,
  parseJsonObject,
} from '../../../../src/shared/lib/encoding.ts'
import { forAll, forAnyInput } from '../../../support/property-runs.ts'
import { words } from '../../../support/words.ts'

test('the vectors of RFC 4648 §10 decode without their padding', () => {
  const vectors = { '': '', Zg: 'f', Zm8: 'fo', Zm9v: 'foo', Zm9vYg: 'foob', Zm9vYmE: 'fooba', Zm9vYmFy: 'foobar' }
  for (const [text, value] of Object.entries(vectors)) {
    assert.equal(decodeBase64url(text)?.toString(), value)
    assert.equal(encodeBase64url(Buffer.from(value)), text)
  }
})

test('the example of RFC 7515 appendix C decodes', () =>
  assert.deepEqual(decodeBase64url('A-z_4ME'), Buffer.from([3, 236, 255, 224, 193])))

for (const text of ['Zm 8', 'Zm8\n', ' Zm8', '\0\0\0\0', ...words`Zg== Zg= Zm8= Z Zm9vY Zh Zm9 A+z/4ME Zm8é`])
  test(`${JSON.stringify(text)} is refused`, () => {
    assert.equal(decodeBase64url(text), undefined)
    assert.equal(isBase64url(text), false)
  })

test('any bytes survive the way there and back', () =>
  forAll(fc.uint8Array({ maxLength: 200 }), (bytes) =>
    assert.deepEqual(decodeBase64url(encodeBase64url(bytes)), Buffer.from(bytes)),
  ))

test('whatever is accepted is the one spelling of its bytes', () => {
  const characters = fc.constantFrom(...'ABQgwxyz019-_=+/ ')
  forAnyInput(fc.string({ unit: characters, maxLength: 12 }), (text) => {
    const bytes = decodeBase64url(text)
    if (bytes) assert.equal(encodeBase64url(bytes), text)
  })
})

const parse = (text: string | Buffer) => parseJsonObject(Buffer.from(text as string))

test('an object is returned with its members', () =>
  assert.deepEqual(parse(' {"a":{"b":[1,"x:y",{"c":null}]},"":"\\":"} '), {
    a: { b: [1, 'x:y', { c: null }] },
    '': '":',
  }))

const refusals: [name: string, text: string | Buffer, reason: string][] = [
  ['nothing', '', 'is not valid JSON'],
  ['a truncated object', '{"a":1', 'is not valid JSON'],
  ['a comment', '{"a":1/**/}', 'is not valid JSON'],
  ['a trailing comma', '{"a":1,}', 'is not valid JSON'],
  ['two objects', '{}{}', 'is not valid JSON'],
  ['a byte order mark', '\ufeff{}', 'is not valid JSON'],
  ['bytes that are no UTF-8', Buffer.from('{"a":"\xff"}', 'latin1'), 'is not UTF-8'],
  ['an encoded surrogate', Buffer.from('7b2261223a22eda080227d', 'hex'), 'is not UTF-8'],
  ['null', 'null', 'is not a JSON object'],
  ['an array', '[{}]', 'is not a JSON object'],
  ['a string', '"{}"', 'is not a JSON object'],
  ['equal members', '{"a":1,"a":1}', 'has a duplicate member'],
  ['equal members in different spelling', '{"a":1,"\\u0061":2}', 'has a duplicate member'],
  ['equal members inside', '{"x":[{"a":1,"b":2,"a":3}]}', 'has a duplicate member'],
  ['__proto__ twice', '{"__proto__":1,"__proto__":2}', 'has a duplicate member'],
  ['33 levels', `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`, 'is nested too deeply'],
  ['100,000 levels', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'is nested too deeply'],
]
for (const [name, text, reason] of refusals) test(`${name} ${reason}`, () => assert.equal(parse(text), reason))

test('32 levels are enough for anybody, and brackets in strings are no levels', () => {
  assert.equal(typeof parse(`${'{"a":'.repeat(32)}1${'}'.repeat(32)}`), 'object')
  assert.equal(typeof parse(`{"a":"${'[{'.repeat(100)}"}`), 'object')
})

test('__proto__ is a member like any other', () => {
  const object = parse('{"__proto__":{"admin":true}}')
  assert.equal(typeof object, 'object')
  assert.equal((object as { admin?: boolean }).admin, undefined)
})

test('it returns an object or a reason for any bytes', () =>
  forAnyInput(fc.uint8Array({ maxLength: 60 }), (bytes) =>
    assert.match(typeof parseJsonObject(Buffer.from(bytes)), /^(object|string)$/),
  ))

test('what JSON.stringify writes of an object comes back', () =>
  forAll(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 })), (object) => {
    const text = JSON.stringify(object)
    assert.deepEqual(parse(text), JSON.parse(text))
  }))

test('one member more with the name of another is always found', () => {
  const names = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 6 })
  forAll(names, fc.jsonValue({ maxDepth: 3 }), fc.nat(), (members, value, pick) => {
    const twice = [...members, members[pick % members.length] as string]
    const text = `{${twice.map((name) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`
    assert.equal(parse(text), 'has a duplicate member')
  })
})

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
      forAll(half, half, fc.nat(octets), fc.nat(octets), (r, s, zerosR, zerosS) => {
        r.fill(0, 0, zerosR)
        s.fill(0, 0, zerosS)
        const [first, rest] = integer(contentOf(encodeEcdsaSignature(Buffer.concat([r, s]))))
        const [second, end] = integer(rest)
        assert.equal(first, BigInt(`0x${Buffer.from(r).toString('hex')}`))
        assert.equal(second, BigInt(`0x${Buffer.from(s).toString('hex')}`))
        assert.equal(end.length, 0)
      })
    })

    test('gets the same verdict as with r and s side by side, whatever is changed in it', () => {
      const change = fc.record({ at: fc.nat(2 * octets - 1), octet: fc.nat(255), to: fc.nat(2 * octets) })
      forAll(change, ({ at, octet, to }) => {
        const changed = Buffer.from(raw).fill(octet, at, Math.max(at, to))
        assert.equal(verify(hash, data, publicKey, encodeEcdsaSignature(changed)), verify(hash, data, p1363, changed))
      })
    })
  })
