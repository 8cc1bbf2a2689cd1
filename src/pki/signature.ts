/** Verifying the signatures of certificates and certification requests with node:crypto. */

import { createPublicKey, KeyObject, verify } from 'node:crypto'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from './algorithms.ts'

/**
 * Verifies a signature of X.509 or PKCS#10 form. False, not an exception, for a key that cannot be imported (such as
 * a point off its curve), that does not fit the algorithm, or an algorithm that is none of ours.
 */
export function verifySignature(
  signatureAlgorithm: SignatureAlgorithm | undefined,
  signed: Buffer,
  key: KeyObject | Buffer,
  signature: Buffer,
): boolean {
  if (signatureAlgorithm === undefined) return false
  const { hash: digest, keyKind } = SIGNATURE_ALGORITHMS[signatureAlgorithm]
  const publicKey = key instanceof KeyObject ? key : importSpki(key)
  if (publicKey?.asymmetricKeyType !== keyKind) return false
  return verify(digest, signed, publicKey, signature)
}

function importSpki(der: Buffer): KeyObject | undefined {
  try {
    return createPublicKey({ key: der, format: 'der', type: 'spki' })
  } catch {
    // OpenSSL refuses the key; its reasons are many and none of them changes the verdict.
    return undefined
  }
}
