/**
 * SubjectPublicKeyInfo (SPKI, RFC 5280 §4.1.2.7), a public key with its algorithm: the kind of key,
 * and whether its encoding follows its RFC.
 */

import { hash } from 'node:crypto'
import { CURVES, type Curve, findCurve, KEY_ALGORITHM } from './algorithms.ts'
import { DerError, DerReader, readSingle, TAG } from './der.ts'

/**
 * `modulus` is a big-endian magnitude. `oid` of an unsupported key is its algorithm, or its curve
 * if that is unknown.
 */
export type PublicKeyFacts =
  | { kind: 'rsa'; bits: number; exponent: bigint; modulus: Buffer }
  | { kind: 'ec'; curve: Curve }
  | { kind: 'ed25519' }
  | { kind: 'unsupported'; oid: string }

/**
 * `der` is the whole SubjectPublicKeyInfo, `keyBits` the content of its BIT STRING. Both view the
 * parsed Buffer.
 */
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
 * Reads the next value of `reader` and checks its parameters and form.
 * RFC 3279 §2.3.1, RFC 5480 §2, RFC 8410 §4; node:crypto checks at import that a point is on its
 * curve.
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
  // Object.assign on the fresh object: spreading a union is slow in V8, and this runs for every
  // certificate.
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
