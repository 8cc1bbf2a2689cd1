import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { describe, test } from 'node:test'
import { encryptKey } from '../../../signer/ceremony/new-key.ts'
import { DerReader } from '../../../src/shared/pki/der.ts'
import { decodePem } from '../../../src/shared/pki/pem.ts'
import { type AuthorityKind, makeKeyPair } from '../../signer/authority.ts'

const KINDS: readonly AuthorityKind[] = ['P-256', 'P-521', 'Ed25519', 'RSA']

describe('an encrypted key file', () => {
  for (const kind of KINDS)
    test(`of ${kind} opens with its passphrase`, async () => {
      const { privateKey } = makeKeyPair(kind)
      const pem = await encryptKey(privateKey, 'korrekt häst ✓')
      assert.ok(createPrivateKey({ key: pem, passphrase: 'korrekt häst ✓' }).equals(privateKey))
      if (kind === 'P-256') assert.throws(() => createPrivateKey({ key: pem, passphrase: 'korrekt hast ✓' }))
    })

  test('says how it was made: PBES2, PBKDF2 with HMAC-SHA-256 and 600,000 iterations, AES-256-CBC (RFC 8018 §6.2)', async () => {
    const { privateKey } = makeKeyPair('P-256')
    const [first, second] = await Promise.all([read(privateKey), read(privateKey)])
    const oids = ['1.2.840.113549.1.5.13', '1.2.840.113549.1.5.12', '1.2.840.113549.2.9', '2.16.840.1.101.3.4.1.42']
    assert.deepEqual([first.oids, first.iterations], [oids, 600_000n])
    assert.deepEqual([first.salt.length, first.iv.length], [16, 16])
    assert.notDeepEqual(first.salt, second.salt)
    assert.notDeepEqual(first.iv, second.iv)
  })
})

/** Walks the whole structure (RFC 5958 §3, RFC 8018 appendix A). */
async function read(privateKey: Parameters<typeof encryptKey>[0]) {
  const [block] = decodePem(await encryptKey(privateKey, 'x'))
  assert.equal(block?.label, 'ENCRYPTED PRIVATE KEY')
  const whole = new DerReader(block!.der)
  const info = whole.sequence()
  const algorithm = info.sequence()
  const pbes2 = algorithm.oid()
  const parameters = algorithm.sequence()
  const derivation = parameters.sequence()
  const pbkdf2 = derivation.oid()
  const derivationParameters = derivation.sequence()
  const salt = derivationParameters.octetString()
  const iterations = BigInt(`0x${derivationParameters.unsignedInteger().toString('hex')}`)
  const prf = derivationParameters.sequence()
  const hmac = prf.oid()
  prf.null()
  const scheme = parameters.sequence()
  const cipher = scheme.oid()
  const iv = scheme.octetString()
  assert.equal(info.octetString().length % 16, 0)
  for (const reader of [prf, derivationParameters, derivation, scheme, parameters, algorithm, info, whole])
    reader.finish('EncryptedPrivateKeyInfo')
  return { oids: [pbes2, pbkdf2, hmac, cipher], salt, iterations, iv }
}
