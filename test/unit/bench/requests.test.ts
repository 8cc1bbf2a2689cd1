/** What the clients of the bench sign, as others read it: requests by jose, CSRs by @peculiar/x509. */

import 'reflect-metadata'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pkcs10CertificateRequest, type SubjectAlternativeNameExtension } from '@peculiar/x509'
import { calculateJwkThumbprint, type FlattenedJWSInput, flattenedVerify, importJWK } from 'jose'
import { csrMaker, headerPrefix, newKey, signJws, thumbprint } from '../../../bench/client/jws.ts'

const URL = 'https://ca.test/order/1'
const KID = 'https://ca.test/account/1'
const LONG_NAME = `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.test`

const verify = async (jws: string, jwk: object) =>
  await flattenedVerify(JSON.parse(jws) as FlattenedJWSInput, await importJWK(jwk, 'ES256'))

// RFC 8555 §6.2: alg, nonce, url, and exactly one of jwk and kid.
test('requests carry exactly the protected header of RFC 8555 §6.2', async () => {
  const key = newKey()
  const byKid = await verify(signJws(key, headerPrefix({ kid: KID }), 'n', URL, '{"a":1}'), key.jwk)
  assert.deepEqual(byKid.protectedHeader, { alg: 'ES256', kid: KID, nonce: 'n', url: URL })
  assert.equal(Buffer.from(byKid.payload).toString(), '{"a":1}')
  const byJwk = await verify(signJws(key, headerPrefix({ jwk: key.jwk }), 'n', URL, '{}'), key.jwk)
  assert.deepEqual(byJwk.protectedHeader, { alg: 'ES256', jwk: key.jwk, nonce: 'n', url: URL })
})

// RFC 8555 §6.3: POST-as-GET has a zero-length payload.
test('POST-as-GET has an empty payload', async () => {
  const key = newKey()
  const jws = signJws(key, headerPrefix({ kid: KID }), 'n', URL, '')
  assert.equal((JSON.parse(jws) as { payload: string }).payload, '')
  assert.equal((await verify(jws, key.jwk)).payload.length, 0)
})

test('a thumbprint is that of RFC 7638', async () => {
  const { jwk } = newKey()
  assert.equal(thumbprint(jwk), await calculateJwkThumbprint(jwk))
})

for (const name of ['a.test', `${'n'.repeat(50)}.bench.test`, LONG_NAME])
  test(`a CSR for a name of ${name.length} octets verifies and asks for it alone`, async () => {
    const key = newKey()
    const csr = new Pkcs10CertificateRequest(Buffer.from(csrMaker(key)(name), 'base64url'))
    assert.equal(await csr.verify(), true)
    assert.equal(csr.subject, '')
    assert.deepEqual(Buffer.from(csr.publicKey.rawData), key.spki)
    const names = [...csr.extensions].map((one) => (one as SubjectAlternativeNameExtension).names.toJSON())
    assert.deepEqual(names, [[{ type: 'dns', value: name }]])
  })
