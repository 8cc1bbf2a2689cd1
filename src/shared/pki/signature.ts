/** Imports public keys and verifies signatures of certificates and requests with node:crypto. */

import { createPublicKey, type JsonWebKey, KeyObject, verify } from 'node:crypto'
import { CURVES, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from './algorithms.ts'
import type { Spki } from './spki.ts'

/**
 * Verifies a signature in X.509 or PKCS#10 form.
 * False, not an exception, for a refused key, an unknown algorithm, or one that does not fit the
 * key.
 */
export function verifySignature(
  signatureAlgorithm: SignatureAlgorithm | undefined,
  signed: Buffer,
  key: KeyObject | Spki,
  signature: Buffer,
): boolean {
  if (signatureAlgorithm === undefined) return false
  const { hash: digest, keyKind } = SIGNATURE_ALGORITHMS[signatureAlgorithm]
  const publicKey = key instanceof KeyObject ? key : importPublicKey(key)
  if (publicKey?.asymmetricKeyType !== keyKind) return false
  return verify(digest, signed, publicKey, signature)
}

/** The key for node:crypto; undefined when OpenSSL refuses it. */
export function importPublicKey(spki: Spki): KeyObject | undefined {
  const jwk = fastImportForm(spki)
  // Node.js 24 detects the kind of input by four internal exceptions; without stacks that takes
  // half the time.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return createPublicKey(jwk ? { key: jwk, format: 'jwk' } : { key: spki.der, format: 'der', type: 'spki' })
  } catch {
    // OpenSSL has many reasons; none changes the result.
    return undefined
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/**
 * The key as a JWK where that is faster: OpenSSL 3 searches its decoders for every DER key.
 *
 * Measured on Node 20: a third of the time for P-256, an eighth for Ed25519, a thirtieth for
 * RSA-2048. P-384 takes three times as long: the point is multiplied by the group order.
 * WebCrypto's raw import takes as long for P-256 (84 and 86 µs) and is asynchronous.
 */
function fastImportForm(spki: Spki): JsonWebKey | undefined {
  if (spki.kind === 'rsa') {
    const hex = spki.exponent.toString(16)
    const exponent = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
    return { kty: 'RSA', n: spki.modulus.toString('base64url'), e: exponent.toString('base64url') }
  }
  if (spki.kind === 'ed25519') return { kty: 'OKP', crv: 'Ed25519', x: spki.keyBits.toString('base64url') }
  if (spki.kind === 'ec' && spki.curve === 'P-256') {
    const yStart = 1 + CURVES['P-256'].fieldOctets
    const [x, y] = [spki.keyBits.subarray(1, yStart), spki.keyBits.subarray(yStart)]
    return { kty: 'EC', crv: 'P-256', x: x.toString('base64url'), y: y.toString('base64url') }
  }
  return undefined
}
