/** One key of each kind that a certificate may have. */

import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'

export interface TestKey {
  label: string
  signatureAlgorithm: SignatureAlgorithm
  privateKey: KeyObject
  publicKey: KeyObject
  spki: Buffer
  /** For @peculiar/x509. */
  webAlgorithm: WebAlgorithm
  webSigning: WebAlgorithm
}

interface WebAlgorithm {
  name: string
  hash?: string
  namedCurve?: string
}

function ecKey(curve: string, signatureAlgorithm: SignatureAlgorithm, hash: string): TestKey {
  const pair = () => generateKeyPairSync('ec', { namedCurve: curve })
  return testKey(curve, signatureAlgorithm, pair, { name: 'ECDSA', namedCurve: curve }, { name: 'ECDSA', hash })
}

/** The pair is made when it is first used: an RSA key takes longer than most tests. */
function testKey(
  label: string,
  signatureAlgorithm: SignatureAlgorithm,
  makePair: () => { privateKey: KeyObject; publicKey: KeyObject },
  webAlgorithm: WebAlgorithm,
  webSigning: WebAlgorithm,
): TestKey {
  let made: Pick<TestKey, 'privateKey' | 'publicKey' | 'spki'> | undefined
  const pair = () => {
    if (made) return made
    const { privateKey, publicKey } = makePair()
    made = { privateKey, publicKey, spki: publicKey.export({ type: 'spki', format: 'der' }) }
    return made
  }
  return {
    label,
    signatureAlgorithm,
    webAlgorithm,
    webSigning,
    get privateKey() {
      return pair().privateKey
    },
    get publicKey() {
      return pair().publicKey
    },
    get spki() {
      return pair().spki
    },
  }
}

const RSA_WEB = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }

export const RSA_KEY = testKey(
  'RSA',
  'SHA256withRSA',
  () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  RSA_WEB,
  RSA_WEB,
)
export const P256_KEY = ecKey('P-256', 'SHA256withECDSA', 'SHA-256')
/** One that nobody has used. */
export const freshP256Key = (): TestKey => ecKey('P-256', 'SHA256withECDSA', 'SHA-256')

export const P384_KEY = ecKey('P-384', 'SHA384withECDSA', 'SHA-384')
export const P521_KEY = ecKey('P-521', 'SHA512withECDSA', 'SHA-512')
export const ED25519_KEY = testKey(
  'Ed25519',
  'Ed25519',
  () => generateKeyPairSync('ed25519'),
  { name: 'Ed25519' },
  { name: 'Ed25519' },
)
export const ALL_KEYS: readonly TestKey[] = [RSA_KEY, P256_KEY, P384_KEY, P521_KEY, ED25519_KEY]
