/**
 * Signature algorithms of certificates and requests: names, OIDs and AlgorithmIdentifier bytes (RFC 4055 §5, RFC 5758
 * §3.2, RFC 8410 §3). Also the elliptic curves of subject keys (RFC 5480 §2.1.1.1).
 */

import { DerReader } from './der.ts'
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

export function findCurve(oid: string): Curve | undefined {
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
