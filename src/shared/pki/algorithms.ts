/**
 * Signature algorithms of certificates and requests: names, OIDs and AlgorithmIdentifier bytes (RFC 4055 §5, RFC 5758
 * §3.2, RFC 8410 §3), and the elliptic curves of subject keys (RFC 5480 §2.1.1.1).
 *
 * A SubjectPublicKeyInfo (SPKI, RFC 5280 §4.1.2.7) is a public key with its algorithm. This file tells its kind and whether
 * its encoding follows its RFC, and verifies signatures of certificates and requests with it.
 */

import { createPublicKey, hash, type JsonWebKey, KeyObject, verify } from 'node:crypto'
import { DerError, DerReader, readSingle, TAG } from './der.ts'
import { encodeDer } from './der-writer.ts'

/** Java-style names, as in CSR profiles and the configuration. */
export type SignatureAlgorithm =
  | 'SHA256withRSA'
  | 'SHA384withRSA'
  | 'SHA512withRSA'
  | 'SHA256withECDSA'
  | 'SHA384withECDSA'
  | 'SHA512withECDSA'
  | 'Ed25519'

/** Kinds of key that can sign or be certified here. */
export type KeyKind = 'rsa' | 'ec' | 'ed25519'

export interface SignatureAlgorithmFacts {
  oid: string
  /** The whole AlgorithmIdentifier in its only correct encoding: NULL parameters for RSA, none otherwise. */
  identifierDer: Buffer
  /** Digest name of node:crypto; null where the algorithm includes its own hash. */
  hash: 'sha256' | 'sha384' | 'sha512' | null
  keyKind: KeyKind
}

export const SIGNATURE_ALGORITHMS = {
  SHA256withRSA: facts('1.2.840.113549.1.1.11', 'sha256', 'rsa'),
  SHA384withRSA: facts('1.2.840.113549.1.1.12', 'sha384', 'rsa'),
  SHA512withRSA: facts('1.2.840.113549.1.1.13', 'sha512', 'rsa'),
  SHA256withECDSA: facts('1.2.840.10045.4.3.2', 'sha256', 'ec'),
  SHA384withECDSA: facts('1.2.840.10045.4.3.3', 'sha384', 'ec'),
  SHA512withECDSA: facts('1.2.840.10045.4.3.4', 'sha512', 'ec'),
  Ed25519: facts('1.3.101.112', null, 'ed25519'),
} as const satisfies Record<SignatureAlgorithm, SignatureAlgorithmFacts>

/** By the hash, for keys of one kind. */
export function isWeaker(one: SignatureAlgorithm, other: SignatureAlgorithm): boolean {
  return strengthOf(one) < strengthOf(other)
}

/** The names of SHA-2 end in their bits. */
const strengthOf = (algorithm: SignatureAlgorithm): number =>
  Number(SIGNATURE_ALGORITHMS[algorithm].hash?.slice('sha'.length) ?? 0)

/** Curves of subject keys; `fieldOctets` is the length of one coordinate, `profileLabel` the name in CSR profiles. */
export const CURVES = {
  'P-256': { oid: '1.2.840.10045.3.1.7', bits: 256, fieldOctets: 32, profileLabel: 'EC.secp256r1' },
  'P-384': { oid: '1.3.132.0.34', bits: 384, fieldOctets: 48, profileLabel: 'EC.secp384r1' },
  'P-521': { oid: '1.3.132.0.35', bits: 521, fieldOctets: 66, profileLabel: 'EC.secp521r1' },
} as const satisfies Record<string, { oid: string; bits: number; fieldOctets: number; profileLabel: string }>
export type Curve = keyof typeof CURVES

export const KEY_ALGORITHM = {
  rsaEncryption: '1.2.840.113549.1.1.1',
  ecPublicKey: '1.2.840.10045.2.1',
  ed25519: '1.3.101.112',
} as const

/** `algorithm` is undefined for an unknown OID, or for parameters that it cannot have. */
export interface AlgorithmIdentifier {
  oid: string
  algorithm: SignatureAlgorithm | undefined
  der: Buffer
}

const ALGORITHM_BY_IDENTIFIER: ReadonlyMap<string, SignatureAlgorithm> = new Map(
  Object.entries(SIGNATURE_ALGORITHMS).map(([name, { identifierDer }]) => [
    identifierDer.toString('latin1'),
    name as SignatureAlgorithm,
  ]),
)
const ALGORITHM_BY_OID: ReadonlyMap<string, SignatureAlgorithm> = new Map(
  Object.entries(SIGNATURE_ALGORITHMS).map(([name, { oid }]) => [oid, name as SignatureAlgorithm]),
)
const CURVE_BY_OID: ReadonlyMap<string, Curve> = new Map(
  Object.entries(CURVES).map(([name, { oid }]) => [oid, name as Curve]),
)

/** The algorithm with exactly this AlgorithmIdentifier (DER). */
export function findSignatureAlgorithm(identifierDer: Buffer): SignatureAlgorithm | undefined {
  return ALGORITHM_BY_IDENTIFIER.get(identifierDer.toString('latin1'))
}

/** Names of algorithms that are not supported, for refusals. */
const OTHER_SIGNATURE_ALGORITHMS: ReadonlyMap<string, string> = new Map([
  ['1.2.840.113549.1.1.4', 'MD5withRSA'],
  ['1.2.840.113549.1.1.5', 'SHA1withRSA'],
  ['1.3.14.3.2.29', 'SHA1withRSA'],
  ['1.2.840.113549.1.1.10', 'RSASSA-PSS'],
  ['1.2.840.113549.1.1.14', 'SHA224withRSA'],
  ['1.2.840.10045.4.1', 'SHA1withECDSA'],
  ['1.2.840.10045.4.3.1', 'SHA224withECDSA'],
  ['1.2.840.10040.4.3', 'SHA1withDSA'],
  ['2.16.840.1.101.3.4.3.2', 'SHA256withDSA'],
  ['1.3.101.112', 'Ed25519 with parameters'],
  ['1.3.101.113', 'Ed448'],
])

/** The name of an algorithm that is not supported, or its OID. */
export function otherSignatureAlgorithmName(oid: string): string {
  return OTHER_SIGNATURE_ALGORITHMS.get(oid) ?? oid
}

function findCurve(oid: string): Curve | undefined {
  return CURVE_BY_OID.get(oid)
}

/**
 * Reads the AlgorithmIdentifier of a signature (RFC 5280 §4.1.1.2). RFC 4055 §5 wants absent
 * parameters taken as NULL; of RSA and ECDSA the parameters say nothing, so strangers may write any.
 * @throws DerError
 */
export function readAlgorithmIdentifier(reader: DerReader): AlgorithmIdentifier {
  const start = reader.offset
  const der = reader.any()
  const algorithm = findSignatureAlgorithm(der)
  if (algorithm !== undefined) return { oid: SIGNATURE_ALGORITHMS[algorithm].oid, algorithm, der }
  const inner = new DerReader(reader.bytes, start, reader.offset, reader.depth, reader.exact).sequence()
  const oid = inner.oid()
  const isBare = inner.done
  if (!isBare) inner.any()
  inner.finish('AlgorithmIdentifier')
  const named = reader.exact ? undefined : ALGORITHM_BY_OID.get(oid)
  return { oid, algorithm: named === 'Ed25519' && !isBare ? undefined : named, der }
}

function facts<K extends KeyKind>(oid: string, hash: SignatureAlgorithmFacts['hash'], keyKind: K) {
  const identifierDer = encodeDer((writer) =>
    writer.sequence(() => {
      writer.oid(oid)
      if (keyKind === 'rsa') writer.raw(Buffer.of(0x05, 0x00))
    }),
  )
  return { oid, identifierDer, hash, keyKind }
}

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
