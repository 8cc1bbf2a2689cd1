/** The JWS of external account binding (RFC 8555 §7.3.4): its form, totality, and the MAC of RFC 7515 A.1. */

import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  isKid,
  MAC_ALGORITHMS,
  parseExternalAccountBinding,
  verifyBindingMac,
} from '../../../../src/shared/protocol/external-account-binding.ts'
import { parseAccountKey } from '../../../../src/shared/protocol/jwk.ts'
import { Problem } from '../../../../src/shared/protocol/problem.ts'
import { publicJwk } from '../../../support/jwk.ts'
import { forAnyInput } from '../../../support/property-runs.ts'

const url = 'https://acme.example/new-account'
const accountKeys = { minRsaBits: 2048, maxRsaBits: 4096, curves: ['P-256'] as const }
const jwk = publicJwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey)
const key = parseAccountKey(jwk as Record<string, unknown>, accountKeys)
const context = { url, key, accountKeys }

const HASHES = { HS256: 'sha256', HS384: 'sha384', HS512: 'sha512' } as const
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

function aBinding(macKey: Buffer, alg: keyof typeof HASHES = 'HS256') {
  const encoded = { protected: encode({ alg, kid: 'k', url }), payload: encode(jwk) }
  const mac = createHmac(HASHES[alg], macKey).update(`${encoded.protected}.${encoded.payload}`).digest('base64url')
  return { ...encoded, signature: mac }
}

describe('external account binding', () => {
  test('the MAC is that of RFC 7515 A.1', () => {
    const macKey = Buffer.from(
      'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow',
      'base64url',
    )
    const jws = {
      protected: 'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9',
      payload: 'eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ',
      signature: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
    }
    const mac = Buffer.from(jws.signature, 'base64url')
    assert.equal(verifyBindingMac({ kid: 'k', jws, alg: 'HS256', mac }, macKey), true)
    assert.equal(verifyBindingMac({ kid: 'k', jws, alg: 'HS512', mac }, macKey), false)
  })

  for (const alg of MAC_ALGORITHMS)
    test(`a right binding with ${alg} is read, and verifies with its key alone`, () => {
      const macKey = randomBytes(32)
      const binding = parseExternalAccountBinding(aBinding(macKey, alg), context)
      assert.deepEqual([binding.kid, binding.alg], ['k', alg])
      assert.equal(verifyBindingMac(binding, macKey), true)
      assert.equal(verifyBindingMac(binding, randomBytes(32)), false)
    })

  test('a MAC that differs in one bit, or in length, does not verify', () => {
    const macKey = randomBytes(32)
    const binding = parseExternalAccountBinding(aBinding(macKey), context)
    for (let bit = 0; bit < 256; bit++) {
      const mac = Buffer.from(binding.mac)
      mac[bit >> 3] = (mac[bit >> 3] as number) ^ (1 << (bit & 7))
      assert.equal(verifyBindingMac({ ...binding, mac }, macKey), false)
    }
    for (const mac of [Buffer.alloc(0), binding.mac.subarray(1), Buffer.concat([binding.mac, Buffer.alloc(1)])])
      assert.equal(verifyBindingMac({ ...binding, mac }, macKey), false)
  })

  test('any value is a binding or a problem whose detail names the member', () => {
    const right = aBinding(randomBytes(32))
    const text = fc.oneof(fc.string(), fc.jsonValue().map(encode), fc.constantFrom(right.protected, right.payload))
    const shaped = fc.record({ protected: text, payload: text, signature: text }, { requiredKeys: [] })
    forAnyInput(fc.oneof(fc.jsonValue(), shaped), (value) => {
      try {
        parseExternalAccountBinding(value, context)
      } catch (error) {
        assert.ok(error instanceof Problem, String(error))
        assert.match(error.message, /^externalAccountBinding: /)
        assert.ok(['malformed', 'badSignatureAlgorithm'].includes(error.type))
      }
    })
  })

  test('a kid is any text of 1 to 255 characters without control characters', () => {
    for (const kid of ['a', 'team-a', '007', 'schlüssel', 'k'.repeat(255)]) assert.ok(isKid(kid), kid)
    for (const kid of ['', 'k'.repeat(256), 'a\0', 'a\n', '\x7f']) assert.ok(!isKid(kid), JSON.stringify(kid))
  })
})
