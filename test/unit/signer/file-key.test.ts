import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type FileKeyOptions, loadFileKey } from '../../../signer/keys/load-key.ts'
import { TEST_MESSAGE } from '../../../signer/protocol/methods.ts'
import { type SignatureAlgorithm, verifySignature } from '../../../src/shared/pki/algorithms.ts'
import { makeKeyPair } from '../../signer/authority.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describe('a key file', () => {
  const folder = temporaryFolder()
  const write = (name: string, content: string | Buffer, mode = 0o600) => {
    const file = path.join(folder, name)
    writeFileSync(file, content)
    chmodSync(file, mode)
    return file
  }
  async function signsWith(options: FileKeyOptions, publicKey: KeyObject): Promise<boolean> {
    const key = loadFileKey(options)
    return verifySignature(options.algorithm, TEST_MESSAGE, publicKey, await key.sign(TEST_MESSAGE))
  }

  const CASES: readonly (readonly [
    kind: Parameters<typeof makeKeyPair>[0],
    type: 'pkcs8' | 'sec1' | 'pkcs1',
    SignatureAlgorithm,
  ])[] = [
    ['P-256', 'pkcs8', 'SHA256withECDSA'],
    ['P-256', 'sec1', 'SHA256withECDSA'],
    ['P-384', 'sec1', 'SHA384withECDSA'],
    ['P-521', 'pkcs8', 'SHA512withECDSA'],
    ['Ed25519', 'pkcs8', 'Ed25519'],
    ['RSA', 'pkcs8', 'SHA256withRSA'],
    ['RSA', 'pkcs1', 'SHA512withRSA'],
  ]
  for (const [kind, type, algorithm] of CASES)
    test(`of ${kind} in ${type} signs ${algorithm}`, async () => {
      const { privateKey, publicKey } = makeKeyPair(kind)
      const file = write(`${kind}-${type}`, privateKey.export({ format: 'pem', type } as never) as string)
      assert.ok(await signsWith({ file, algorithm }, publicKey))
    })

  const { privateKey, publicKey } = makeKeyPair('P-256')
  const algorithm = 'SHA256withECDSA'
  const plain = privateKey.export({ format: 'pem', type: 'pkcs8' }) as string
  const encrypted = privateKey.export({
    format: 'pem',
    type: 'pkcs8',
    cipher: 'aes-256-cbc',
    passphrase: 'correct',
  }) as string

  test('that is encrypted opens with its passphrase', async () =>
    assert.ok(await signsWith({ file: write('encrypted', encrypted), passphrase: 'correct', algorithm }, publicKey)))

  test('that is encrypted says what is missing', () => {
    const file = write('encrypted', encrypted)
    assert.throws(() => loadFileKey({ file, algorithm }), /needs a passphrase/)
    assert.throws(() => loadFileKey({ file, passphrase: 'wrong', algorithm }), /wrong passphrase/)
  })

  test('that others can read is refused', () => {
    for (const mode of [0o640, 0o604, 0o660, 0o620, 0o644])
      assert.throws(() => loadFileKey({ file: write('open', plain, mode), algorithm }), /lets others read it/)
  })

  test('of another kind than the certificate needs is refused', () =>
    assert.throws(
      () => loadFileKey({ file: write('plain', plain), algorithm: 'SHA256withRSA' }),
      /cannot sign SHA256withRSA/,
    ))

  test('with a short RSA key is refused', () => {
    const short = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({
      format: 'pem',
      type: 'pkcs8',
    })
    assert.throws(() => loadFileKey({ file: write('short', short), algorithm: 'SHA256withRSA' }), /1024 bits/)
  })

  test('that holds something else is refused', () => {
    assert.throws(() => loadFileKey({ file: write('junk', 'hello'), algorithm }), /no private key/)
    assert.throws(() => loadFileKey({ file: path.join(folder, 'absent'), algorithm }), /ENOENT/)
  })
})
