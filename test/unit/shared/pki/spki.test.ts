import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { describe, test } from 'node:test'
import { KEY_ALGORITHM, parseSpki } from '../../../../src/shared/pki/algorithms.ts'
import { DerError } from '../../../../src/shared/pki/der.ts'
import { encodeOid } from '../../../../src/shared/pki/der-writer.ts'
import { bits, der, NULL, sequence } from '../../../corpus/der.ts'
import { P256 } from '../../../corpus/requests.ts'
import { forAnyInput } from '../../../support/property-runs.ts'
import { errorOf, unlessRefused } from '../../../support/refusals.ts'
import { ALL_KEYS, hex, mutated, P256_KEY, RSA_KEY } from './support.ts'

const algorithm = (name: string, parameters: Buffer) => sequence(der(0x06, encodeOid(name)), parameters)
const spkiOf = (name: string, parameters: Buffer, key: Buffer) => sequence(algorithm(name, parameters), bits(key))

const NONE = Buffer.alloc(0)
const p256 = (key: Buffer) => spkiOf(KEY_ALGORITHM.ecPublicKey, P256, key)
const rsaOf = (key: Buffer) => spkiOf(KEY_ALGORITHM.rsaEncryption, NULL, key)
const spkiIn = ({ publicKey }: { publicKey: KeyObject }) => publicKey.export({ type: 'spki', format: 'der' })
const point = parseSpki(P256_KEY.spki).keyBits

describe('SubjectPublicKeyInfo', () => {
  test('an RSA key gives its size, exponent and modulus', () => {
    const spki = parseSpki(RSA_KEY.spki)
    assert.ok(spki.kind === 'rsa')
    const { n, e } = RSA_KEY.publicKey.export({ format: 'jwk' })
    assert.equal(spki.bits, 2048)
    assert.equal(spki.modulus.toString('base64url'), n)
    assert.equal(spki.exponent, BigInt(`0x${Buffer.from(e!, 'base64url').toString('hex')}`))
    assert.deepEqual(spki.der, RSA_KEY.spki)
  })

  test('the size of an RSA key counts its leading zero bits out', () => {
    const spki = parseSpki(rsaOf(sequence(hex('020301ffff'), hex('0203010001'))))
    assert.equal(spki.kind === 'rsa' && spki.bits, 17)
  })

  for (const { label, spki } of ALL_KEYS.filter(({ label }) => label.startsWith('P-')))
    test(`a ${label} key names its curve`, () => {
      const facts = parseSpki(spki)
      assert.equal(facts.kind === 'ec' && facts.curve, label)
    })

  const unsupported: [string, Buffer, string][] = [
    ['secp256k1', spkiIn(generateKeyPairSync('ec', { namedCurve: 'secp256k1' })), '1.3.132.0.10'],
    ['RSASSA-PSS', spkiIn(generateKeyPairSync('rsa-pss', { modulusLength: 1024 })), '1.2.840.113549.1.1.10'],
    ['X25519', spkiIn(generateKeyPairSync('x25519')), '1.3.101.110'],
    ['Ed448', spkiIn(generateKeyPairSync('ed448')), '1.3.101.113'],
  ]
  for (const [label, der, oid] of unsupported)
    test(`a ${label} key is named as unsupported`, () => {
      const spki = parseSpki(der)
      assert.equal(spki.kind === 'unsupported' && spki.oid, oid)
    })

  const refused: [string, Buffer, RegExp][] = [
    ['a point of the wrong length', p256(point.subarray(0, 64)), /uncompressed point/],
    ['the point at infinity', p256(hex('00')), /uncompressed point/],
    ['an empty point', p256(NONE), /uncompressed point/],
    [
      'an RSA key with more than two numbers',
      rsaOf(hex('3009020103020103020103')),
      /RSAPublicKey has unexpected content/,
    ],
    ['a negative RSA modulus', rsaOf(hex('3006 0201ff 020103')), /negative/],
    ['an Ed25519 key of 31 octets', spkiOf(KEY_ALGORITHM.ed25519, NONE, Buffer.alloc(31)), /32 octets/],
    [
      'a key with bits to spare',
      sequence(algorithm(KEY_ALGORITHM.ed25519, NONE), der(0x03, hex('01'), Buffer.alloc(32))),
      /whole octets/,
    ],
    ['trailing bytes', Buffer.concat([P256_KEY.spki, hex('00')]), /SubjectPublicKeyInfo has unexpected content/],
  ]
  for (const [what, der, message] of refused)
    test(`refuses ${what}`, () => assert.throws(() => parseSpki(der), errorOf(DerError, message)))

  test('fails only with DerError on bytes near a valid key', () =>
    forAnyInput(mutated(ALL_KEYS.map(({ spki }) => spki)), (bytes) => {
      unlessRefused(DerError, () => assert.deepEqual(parseSpki(bytes).der, bytes))
    }))
})
