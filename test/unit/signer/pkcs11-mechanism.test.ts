import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { describe, test } from 'node:test'
import { chooseOperation } from '../../../signer/keys/pkcs11/mechanism.ts'
import { kindOfCode, toTokenError } from '../../../signer/keys/pkcs11/native.ts'
import { parseSpki } from '../../../src/shared/pki/algorithms.ts'

const spkiOf = (key: KeyObject) => parseSpki(key.export({ format: 'der', type: 'spki' }))
const ec = (curve: string) => spkiOf(generateKeyPairSync('ec', { namedCurve: curve }).publicKey)
const rsaKeys = generateKeyPairSync('rsa', { modulusLength: 2048 })
const rsa = spkiOf(rsaKeys.publicKey)
const data = Buffer.from('to be signed')

describe('what a token is given', () => {
  test('for ECDSA is the digest', () => {
    const { mechanism, input } = chooseOperation('SHA384withECDSA', ec('P-384'), new Set(['ECDSA'])).prepare(data)
    assert.equal(mechanism, 'ECDSA')
    assert.deepEqual(input, createHash('sha384').update(data).digest())
  })

  // FIPS 186-4 §6.4.
  test('for a hash longer than the curve are its leftmost octets', () => {
    const { input } = chooseOperation('SHA512withECDSA', ec('P-256'), new Set(['ECDSA'])).prepare(data)
    assert.deepEqual(input, createHash('sha512').update(data).digest().subarray(0, 32))
  })

  test('for RSA are the bytes, when the token hashes', () => {
    const operation = chooseOperation('SHA256withRSA', rsa, new Set(['RSA_PKCS', 'SHA256_RSA_PKCS']))
    assert.deepEqual(operation.prepare(data), { mechanism: 'SHA256_RSA_PKCS', input: data })
  })

  test('for RSA is the DigestInfo, when the token does not hash, or the bytes are many', () => {
    const both = chooseOperation('SHA256withRSA', rsa, new Set(['RSA_PKCS', 'SHA256_RSA_PKCS']))
    assert.equal(both.prepare(Buffer.alloc(40_000)).mechanism, 'RSA_PKCS')
    for (const hash of ['sha256', 'sha384', 'sha512'] as const) {
      const name = `${hash.toUpperCase() as Uppercase<typeof hash>}withRSA` as const
      const { mechanism, input } = chooseOperation(name, rsa, new Set(['RSA_PKCS'])).prepare(data)
      assert.equal(mechanism, 'RSA_PKCS')
      assert.ok(
        input.subarray(-createHash(hash).update(data).digest().length).equals(createHash(hash).update(data).digest()),
      )
    }
    const onlyHashing = chooseOperation('SHA256withRSA', rsa, new Set(['SHA256_RSA_PKCS']))
    assert.equal(onlyHashing.prepare(Buffer.alloc(40_000)).mechanism, 'SHA256_RSA_PKCS')
  })

  test('is nothing when it lacks the mechanism', () => {
    assert.throws(() => chooseOperation('SHA256withECDSA', ec('P-256'), new Set(['RSA_PKCS'])), /has not .*CKM_ECDSA/)
    assert.throws(() => chooseOperation('SHA256withRSA', rsa, new Set(['SHA1_RSA_PKCS'])), /nor CKM_SHA256_RSA_PKCS/)
    const ed25519 = spkiOf(generateKeyPairSync('ed25519').publicKey)
    assert.throws(() => chooseOperation('Ed25519', ed25519, new Set()), /RSA or ECDSA here, not Ed25519/)
  })
})

describe('what a token gives back', () => {
  test('is refused when it has not the length of a signature', () => {
    const { finish } = chooseOperation('SHA256withECDSA', ec('P-256'), new Set(['ECDSA']))
    for (const length of [0, 63, 65, 72]) assert.throws(() => finish(Buffer.alloc(length)), /instead of 64/)
    assert.throws(() => chooseOperation('SHA256withRSA', rsa, new Set(['RSA_PKCS'])).finish(Buffer.alloc(255)), /256/)
  })
})

describe('a return value', () => {
  test('of the vendor or of nobody counts as a failing token', () => {
    assert.equal(kindOfCode('CKR_VENDOR_DEFINED'), 'token')
    assert.equal(kindOfCode(''), 'token')
    assert.equal(kindOfCode('CKR_DEVICE_REMOVED'), 'token')
  })

  test('keeps its name and says what was being done', () => {
    const error = toTokenError(new Error('CKR_PIN_LOCKED:164'), 'logging in')
    assert.equal(error.message, 'logging in: CKR_PIN_LOCKED')
    assert.equal(error.kind, 'pin')
    assert.equal(toTokenError(error, 'again'), error)
  })
})
