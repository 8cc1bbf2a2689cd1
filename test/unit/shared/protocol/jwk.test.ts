/** Account keys: canonical form, thumbprint, refusals (RFC 7517, RFC 7638, RFC 8037). */

import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type AccountKeyPolicy,
  CERTIFICATE_KEYS,
  isSpellingOf,
  parseAccountKey,
  restoreAccountKey,
} from '../../../../src/shared/protocol/jwk.ts'
import { publicJwk } from '../../../support/jwk.ts'
import { forAnyInput } from '../../../support/property-runs.ts'
import { problemOf } from '../../../support/refusals.ts'
import { JWS_VECTORS, RFC7638_JWK } from './jws-vectors.ts'

const POLICY: AccountKeyPolicy = { minRsaBits: 2048, maxRsaBits: 8192, curves: ['P-256', 'P-384', 'P-521'] }
test('the thumbprint of the example of RFC 7638 §3.1', () => {
  const key = parseAccountKey(RFC7638_JWK, POLICY)
  assert.equal(key.thumbprint, 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs')
  assert.deepEqual(Object.keys(JSON.parse(key.jwk)), ['e', 'kty', 'n'])
})

test('the thumbprint of the Ed25519 key of RFC 8037 A.3', () => {
  const { jwk } = JWS_VECTORS.find(({ alg }) => alg === 'EdDSA') as { jwk: Record<string, string> }
  assert.equal(parseAccountKey(jwk, POLICY).thumbprint, 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
})

test('further members and their order do not change a key', () => {
  const { n, e } = RFC7638_JWK
  const plain = parseAccountKey({ kty: 'RSA', n, e }, POLICY)
  assert.equal(parseAccountKey(RFC7638_JWK, POLICY).jwk, plain.jwk)
  assert.equal(parseAccountKey({ use: 'sig', n, key_ops: ['verify'], e, kty: 'RSA' }, POLICY).jwk, plain.jwk)
})

function withZeros(text: string, count: number): string {
  return Buffer.concat([Buffer.alloc(count), Buffer.from(text, 'base64url')]).toString('base64url')
}

test('leading zeros do not change an RSA key', () => {
  const plain = parseAccountKey(RFC7638_JWK, POLICY)
  for (const zeros of [1, 2, 7]) {
    const spelled = { ...RFC7638_JWK, n: withZeros(RFC7638_JWK.n, zeros), e: withZeros('AQAB', zeros) }
    assert.equal(parseAccountKey(spelled, POLICY).thumbprint, plain.thumbprint)
    assert.equal(isSpellingOf(spelled, plain), true)
  }
})

test('a coordinate with a leading zero byte may be spelled short or long, and is kept long (RFC 7518 §6.2.1.2)', () => {
  for (let found = 0; found < 2; ) {
    const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const jwk = publicJwk(publicKey) as Record<string, string>
    const x = Buffer.from(jwk['x'] as string, 'base64url')
    if (x[0] !== 0) continue
    found++
    const key = parseAccountKey({ ...jwk, x: x.subarray(1).toString('base64url') }, POLICY)
    assert.equal(JSON.parse(key.jwk).x, jwk['x'])
    assert.equal(key.thumbprint, parseAccountKey(jwk, POLICY).thumbprint)
  }
})

for (const { source, jwk, alg } of JWS_VECTORS)
  test(`the key of ${source} is restored from its canonical form`, () => {
    const key = parseAccountKey(jwk, POLICY)
    const restored = restoreAccountKey(key.jwk, key.thumbprint)
    assert.ok(restored.algorithms.includes(alg))
    assert.deepEqual(restored.algorithms, key.algorithms)
    assert.deepEqual(restored.spki(), key.spki())
    assert.equal(parseAccountKey(JSON.parse(key.jwk), POLICY).jwk, key.jwk)
    assert.deepEqual(
      createPublicKey({ key: restored.spki(), format: 'der', type: 'spki' }).asymmetricKeyType,
      restored.publicKey.asymmetricKeyType,
    )
  })

test('a curve outside the policy is refused, and can still be named', () => {
  const { jwk } = JWS_VECTORS.find(({ alg }) => alg === 'ES512') as { jwk: Record<string, string> }
  const key = parseAccountKey(jwk, POLICY)
  assert.throws(() => parseAccountKey(jwk, { ...POLICY, curves: ['P-256'] }), problemOf('badPublicKey'))
  assert.equal(isSpellingOf(jwk, key), true)
  assert.equal(isSpellingOf({ kty: 'EC' }, key), false)
  assert.equal(isSpellingOf(RFC7638_JWK, key), false)
})

test('RSA sizes are counted in bits', () => {
  const policy = { ...POLICY, minRsaBits: 2041, maxRsaBits: 2048 }
  const bytes = randomBytes(256)
  bytes[255] = (bytes[255] as number) | 1
  const withTop = (top: number) => {
    bytes[0] = top
    return { kty: 'RSA', e: 'AQAB', n: bytes.toString('base64url') }
  }
  parseAccountKey(withTop(0x80), policy)
  parseAccountKey(withTop(0x01), policy)
  assert.throws(() => parseAccountKey(withTop(0x80), { ...policy, maxRsaBits: 2047 }), problemOf('badPublicKey'))
  assert.throws(() => parseAccountKey(withTop(0x01), { ...policy, minRsaBits: 2042 }), problemOf('badPublicKey'))
})

test('the largest exponent is 2^32-1', () => {
  const { n } = RFC7638_JWK
  parseAccountKey({ kty: 'RSA', n, e: '_____w' }, POLICY)
  assert.throws(() => parseAccountKey({ kty: 'RSA', n, e: 'AQAAAAE' }, POLICY), problemOf('badPublicKey'))
})

test('above 4,096 bits the exponent is 65537: verification time grows with both', () => {
  const keyOf = (bytes: number, e: string) => {
    const n = Buffer.alloc(bytes, 0xff)
    return { kty: 'RSA', n: n.toString('base64url'), e }
  }
  parseAccountKey(keyOf(512, '_____w'), POLICY)
  const accepted = parseAccountKey(keyOf(1024, 'AQAB'), POLICY)
  assert.equal(isSpellingOf(keyOf(1024, '_____w'), accepted), false)
  assert.throws(() => parseAccountKey(keyOf(513, '_____w'), POLICY), problemOf('badPublicKey'))
  assert.throws(() => parseAccountKey(keyOf(1024, '_____w'), CERTIFICATE_KEYS), problemOf('badPublicKey'))
})

test('any object is a key or a badPublicKey', () => {
  const member = fc.oneof(fc.base64String({ maxLength: 100 }), fc.jsonValue({ maxDepth: 1 }))
  const jwk = fc.record(
    {
      kty: fc.constantFrom('EC', 'RSA', 'OKP', 'oct', ''),
      crv: fc.constantFrom('P-256', 'P-521', 'Ed25519', 'toString'),
      x: member,
      y: member,
      n: member,
      e: member,
    },
    { requiredKeys: [] },
  )
  const permissive = { ...POLICY, minRsaBits: 0 }
  forAnyInput(jwk, (object) => {
    try {
      const key = parseAccountKey(object, permissive)
      assert.equal(parseAccountKey(JSON.parse(key.jwk), permissive).thumbprint, key.thumbprint)
    } catch (error) {
      assert.ok(problemOf('badPublicKey')(error), String(error))
    }
  })
})
