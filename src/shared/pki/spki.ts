/**
 * SubjectPublicKeyInfo (SPKI, RFC 5280 §4.1.2.7), a public key with its algorithm: the kind of key,
 * whether its encoding follows its RFC, and the signatures of certificates and requests that it verifies.
 */

import { createPublicKey, hash, type JsonWebKey, KeyObject, verify } from 'node:crypto'
import {
  CURVES,
  type Curve,
  findCurve,
  KEY_ALGORITHM,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
} from './algorithms.ts'
import { DerError, DerReader, readSingle, TAG } from './der.ts'

/**
 * `modulus` is a big-endian magnitude. `oid` of an unsupported key is its algorithm, or its curve if that is unknown.
 */
export type PublicKeyFacts =
  | { kind: 'rsa'; bits: number; exponent: bigint; modulus: Buffer }
  | { kind: 'ec'; curve: Curve }
  | { kind: 'ed25519' }
  | { kind: 'unsupported'; oid: string }

/** `der` is the whole SubjectPublicKeyInfo, `keyBits` the content of its BIT STRING. Both view the parsed Buffer. */
export type Spki = PublicKeyFacts & { der: Buffer; keyBits: Buffer }

/** SHA-256 of the whole SubjectPublicKeyInfo, by which the database identifies a key. */
export function hashSpki({ der }: Pick<Spki, 'der'>): Buffer {
  // Through text: `hash` takes nearly twice the time to make a Buffer, and so does createHash.
  return Buffer.from(hash('sha256', der, 'hex'), 'hex')
}

/** @throws DerError */
export function parseSpki(der: Buffer): Spki {
  const reader = new DerReader(der)
  const spki = readSpki(reader)
  reader.finish('SubjectPublicKeyInfo')
  return spki
}

/**
 * Reads the next value of `reader` and checks its parameters and form. RFC 3279 §2.3.1, RFC 5480 §2, RFC 8410 §4;
 * node:crypto checks at import that a point is on its curve.
 * @throws DerError
 */
export function readSpki(reader: DerReader): Spki {
  const start = reader.offset
  const outer = reader.sequence()
  const algorithm = outer.sequence()
  const oid = algorithm.oid()
  const keyAt = outer.offset
  const keyBits = outer.bitStringOctets()
  outer.finish('SubjectPublicKeyInfo')
  const facts = readFacts(oid, algorithm, keyBits, keyAt)
  // Object.assign on the fresh object: spreading a union is slow in V8, and this runs for every certificate.
  return Object.assign(facts, { der: reader.bytes.subarray(start, reader.offset), keyBits })
}

function readFacts(oid: string, parameters: DerReader, keyBits: Buffer, keyAt: number): PublicKeyFacts {
  switch (oid) {
    case KEY_ALGORITHM.rsaEncryption:
      // The certificate copies the key as it is, and Go refuses one without them.
      if (parameters.done) throw new DerError('an RSA key must have NULL parameters (RFC 3279 §2.3.1)', keyAt)
      parameters.null()
      parameters.finish('AlgorithmIdentifier')
      return readRsaKey(keyBits)
    case KEY_ALGORITHM.ecPublicKey:
      return readEcKey(parameters, keyBits, keyAt)
    case KEY_ALGORITHM.ed25519:
      parameters.finish('AlgorithmIdentifier')
      if (keyBits.length !== 32) throw new DerError('an Ed25519 key must have 32 octets', keyAt)
      return { kind: 'ed25519' }
    default:
      if (!parameters.done) parameters.any()
      parameters.finish('AlgorithmIdentifier')
      return { kind: 'unsupported', oid }
  }
}

function readRsaKey(keyBits: Buffer): PublicKeyFacts {
  const key = readSingle(keyBits, TAG.sequence, 'RSAPublicKey')
  const modulus = key.unsignedInteger()
  const exponent = key.unsignedInteger()
  key.finish('RSAPublicKey')
  const bits = modulus.length * 8 - (Math.clz32(modulus[0]!) - 24)
  return { kind: 'rsa', bits, exponent: BigInt(`0x${exponent.toString('hex')}`), modulus }
}

function readEcKey(parameters: DerReader, keyBits: Buffer, keyAt: number): PublicKeyFacts {
  // RFC 5480 §2.1.1: named curves only; with explicit parameters the sender would choose the group.
  if (parameters.peek() !== TAG.oid) throw new DerError('an EC key must name its curve', parameters.offset)
  const curveOid = parameters.oid()
  parameters.finish('AlgorithmIdentifier')
  const curve = findCurve(curveOid)
  if (curve === undefined) return { kind: 'unsupported', oid: curveOid }
  if (keyBits[0] !== 0x04 || keyBits.length !== 1 + 2 * CURVES[curve].fieldOctets) {
    throw new DerError(`a ${curve} key must be an uncompressed point`, keyAt)
  }
  return { kind: 'ec', curve }
}

/**
 * Verifies a signature in X.509 or PKCS#10 form. False, not an exception, for a refused key, an unknown algorithm, or
 * one that does not fit the key.
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
  // Node.js 24 detects the kind of input by four internal exceptions; without stacks that takes half the time.
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

/**
 * The leftmost 160 bits of the SHA-256 of the key's BIT STRING (RFC 7093 §2, method 1).
 * RFC 5280 uses SHA-1, which FIPS builds drop; relying parties only compare the octets.
 */
export function subjectKeyIdentifier(keyBits: Buffer): Buffer {
  // Through text: a Buffer from `hash` takes twice the time.
  return Buffer.from(hash('sha256', keyBits, 'hex').slice(0, 40), 'hex')
}
