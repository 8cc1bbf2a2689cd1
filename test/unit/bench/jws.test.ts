import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { calculateJwkThumbprint, type FlattenedJWSInput, flattenedVerify, importJWK } from 'jose'
import { headerPrefix, signJws, thumbprint } from '../../../bench/client/jws.ts'
import { keyMaker, SIGNING } from '../../../bench/client/signer.ts'

const URL = 'https://ca.test/order/1'
const KID = 'https://ca.test/account/1'

for (const signing of SIGNING) {
  describe(`requests signed with ${signing}`, () => {
    const newKey = keyMaker(signing)
    const verify = async (jws: string, jwk: object) =>
      await flattenedVerify(JSON.parse(jws) as FlattenedJWSInput, await importJWK(jwk, 'ES256'))

    test('verify, more of them than there are precomputed values', async () => {
      const key = newKey()
      for (let i = 0; i < 150; i++) {
        const { payload } = await verify(signJws(key, headerPrefix({ kid: KID }), `n${i}`, URL, `{"i":${i}}`), key.jwk)
        assert.equal(Buffer.from(payload).toString(), `{"i":${i}}`)
      }
    })

    // RFC 8555 §6.2: alg, nonce, url, and exactly one of jwk and kid.
    test('carry exactly the protected header of RFC 8555 §6.2', async () => {
      const key = newKey()
      const byKid = await verify(signJws(key, headerPrefix({ kid: KID }), 'n', URL, '{}'), key.jwk)
      assert.deepEqual(byKid.protectedHeader, { alg: 'ES256', kid: KID, nonce: 'n', url: URL })
      const byJwk = await verify(signJws(key, headerPrefix({ jwk: key.jwk }), 'n', URL, '{}'), key.jwk)
      assert.deepEqual(byJwk.protectedHeader, { alg: 'ES256', jwk: key.jwk, nonce: 'n', url: URL })
    })

    // RFC 8555 §6.3: POST-as-GET has a zero-length payload.
    test('have an empty payload for POST-as-GET', async () => {
      const key = newKey()
      const jws = signJws(key, headerPrefix({ kid: KID }), 'n', URL, '')
      assert.equal((JSON.parse(jws) as { payload: string }).payload, '')
      assert.equal((await verify(jws, key.jwk)).payload.length, 0)
    })

    test('come from keys that differ', () => assert.notEqual(newKey().jwk.x, newKey().jwk.x))
  })
}

test('a thumbprint is that of RFC 7638', async () => {
  const { jwk } = keyMaker('openssl')()
  assert.equal(thumbprint(jwk), await calculateJwkThumbprint(jwk))
})
