/**
 * Account keys as canonical JSON Web Keys (RFC 7517, RFC 7518 §6, RFC 8037). Also their thumbprint
 * (RFC 7638) and signature algorithms.
 */

import { createHash, createPublicKey, type KeyObject } from 'node:crypto'
import { decodeBase64url, encodeBase64url, type JsonObject } from '../lib/encoding.ts'
import { isAbsent, type JwsAlgorithm } from './jws.ts'
import { Problem } from './problem.ts'

export const EC_CURVES = {
  'P-256': { coordinateBytes: 32, algorithms: ['ES256'] },
  'P-384': { coordinateBytes: 48, algorithms: ['ES384'] },
  'P-521': { coordinateBytes: 66, algorithms: ['ES512'] },
} as const satisfies Record<string, { coordinateBytes: number; algorithms: readonly JwsAlgorithm[] }>

type EcCurve = keyof typeof EC_CURVES

const OKP_ALGORITHMS = ['EdDSA'] as const satisfies readonly JwsAlgorithm[]
const RSA_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256'] as const satisfies readonly JwsAlgorithm[]

/** RFC 7518 §6.2.2, §6.3.2, §6.4; RFC 8037 §2. One prime of a modulus reveals the whole key. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'] as const

/** Account keys that `security.*` allows; sizes in bits. */
export interface AccountKeyPolicy {
  minRsaBits: number
  maxRsaBits: number
  curves: readonly EcCurve[]
  /** The key is compared, and no signature is verified with it. */
  isNamedOnly?: true
}

export interface AccountKey {
  /** Required members as canonical JSON in lexicographic order. It is hashed into the thumbprint and stored. */
  jwk: string
  /** base64url of SHA-256 over `jwk` (RFC 7638); identifies the account. */
  thumbprint: string
  readonly publicKey: KeyObject
  algorithms: readonly JwsAlgorithm[]
  /** DER of the SubjectPublicKeyInfo, computed at the first call. */
  spki(): Buffer
}

/** @param imported undefined imports the key at its first use: a key object weighs up to 7 KiB */
function accountKey(
  jwk: string,
  thumbprint: string,
  algorithms: readonly JwsAlgorithm[],
  imported?: KeyObject,
): AccountKey {
  let der: Buffer | undefined
  const key = {
    jwk,
    thumbprint,
    algorithms,
    get publicKey() {
      imported ??= createPublicKey({ key: JSON.parse(jwk), format: 'jwk' })
      return imported
    },
    spki: () => {
      der ??= key.publicKey.export({ type: 'spki', format: 'der' })
      return der
    },
  }
  return key
}

/**
 * Reads a public JWK in any spelling (leading zeros, further members) into its canonical form.
 * @throws Problem badPublicKey
 */
export function parseAccountKey(jwk: JsonObject, policy: AccountKeyPolicy): AccountKey {
  if (PRIVATE_MEMBERS.some((member) => !isAbsent(jwk[member])))
    throw badKey('the jwk holds private key material; send the public key only')
  switch (jwk.kty) {
    case 'EC':
      return ecKey(jwk, policy)
    case 'RSA':
      return rsaKey(jwk, policy)
    case 'OKP':
      return okpKey(jwk)
    default:
      throw badKey('the kty of the jwk must be EC, RSA or OKP')
  }
}

/** Up to this size an RSA key may have any exponent. */
const ANY_EXPONENT_BITS = 4096

const EVERY_KEY: AccountKeyPolicy = {
  minRsaBits: 0,
  maxRsaBits: Number.POSITIVE_INFINITY,
  curves: Object.keys(EC_CURVES) as EcCurve[],
  isNamedOnly: true,
}

/** Keys that certificates may have (docs/decisions/subject-keys.md); a larger modulus would only cost time. */
export const CERTIFICATE_KEYS: AccountKeyPolicy = { minRsaBits: 2048, maxRsaBits: 8192, curves: EVERY_KEY.curves }

/** Whether a JWK spells this key. The policy does not apply: a key it now refuses can still be named. */
export function isSpellingOf(jwk: JsonObject, key: AccountKey): boolean {
  try {
    return parseAccountKey(jwk, EVERY_KEY).thumbprint === key.thumbprint
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}

/** Restores a stored canonical JWK. It passed the policy of its time, so it is not checked again. */
export function restoreAccountKey(canonicalJwk: string, thumbprint: string): AccountKey {
  const jwk = JSON.parse(canonicalJwk) as { kty: string; crv?: string }
  const algorithms =
    jwk.kty === 'EC' ? EC_CURVES[jwk.crv as EcCurve].algorithms : jwk.kty === 'RSA' ? RSA_ALGORITHMS : OKP_ALGORITHMS
  return accountKey(canonicalJwk, thumbprint, algorithms)
}

function ecKey(jwk: JsonObject, policy: AccountKeyPolicy): AccountKey {
  const crv = jwk.crv
  if (typeof crv !== 'string' || !(crv in EC_CURVES)) throw badKey('the crv of the jwk must be P-256, P-384 or P-521')
  const curve = crv as EcCurve
  if (!policy.curves.includes(curve)) throw refusedCurve(curve, policy.curves)
  const { coordinateBytes, algorithms } = EC_CURVES[curve]
  const x = coordinate(jwk.x, 'x', coordinateBytes)
  const y = coordinate(jwk.y, 'y', coordinateBytes)
  return importKey({ crv: curve, kty: 'EC', x, y }, algorithms)
}

function rsaKey(jwk: JsonObject, policy: AccountKeyPolicy): AccountKey {
  const n = unsignedInteger(jwk.n, 'n')
  const e = unsignedInteger(jwk.e, 'e')
  const bits = n.length * 8 - Math.clz32(n[0] ?? 0) + 24
  if (bits < policy.minRsaBits || bits > policy.maxRsaBits)
    throw badKey(`an RSA account key must have ${policy.minRsaBits} to ${policy.maxRsaBits} bits; this one has ${bits}`)
  if (((n.at(-1) ?? 0) & 1) === 0) throw badKey('the RSA modulus is even')
  const exponent = BigInt(`0x${e.toString('hex') || '0'}`)
  // 65537 to 2^32-1: a smaller exponent is weak, a larger one makes the server compute for long.
  if (exponent < 65537n || exponent > 0xffff_ffffn || exponent % 2n === 0n)
    throw badKey('the RSA exponent must be odd and between 65537 and 2^32-1')
  // A signature by 8,192 bits and the exponent 2^32-1 took 3 ms to verify.
  if (!policy.isNamedOnly && bits > ANY_EXPONENT_BITS && exponent !== 65537n)
    throw badKey(`the exponent of an RSA key of more than ${ANY_EXPONENT_BITS} bits must be 65537`)
  return importKey({ e: encodeBase64url(e), kty: 'RSA', n: encodeBase64url(n) }, RSA_ALGORITHMS)
}

function okpKey(jwk: JsonObject): AccountKey {
  if (jwk.crv !== 'Ed25519') throw badKey('the crv of an OKP jwk must be Ed25519')
  const x = typeof jwk.x === 'string' ? decodeBase64url(jwk.x) : undefined
  if (x?.length !== 32) throw badKey('the x of an Ed25519 jwk must be the base64url of 32 bytes')
  return importKey({ crv: 'Ed25519', kty: 'OKP', x: encodeBase64url(x) }, OKP_ALGORITHMS)
}

/** Members must already be in lexicographic order (RFC 7638 §3.1). */
function importKey(canonical: Record<string, string>, algorithms: readonly JwsAlgorithm[]): AccountKey {
  let publicKey: KeyObject
  try {
    publicKey = createPublicKey({ key: canonical, format: 'jwk' })
  } catch (cause) {
    throw new Problem('badPublicKey', 'the jwk is not a valid public key', { cause })
  }
  const jwk = JSON.stringify(canonical)
  return accountKey(jwk, createHash('sha256').update(jwk).digest('base64url'), algorithms, publicKey)
}

function coordinate(value: unknown, member: string, bytes: number): string {
  const integer = unsignedInteger(value, member)
  if (integer.length > bytes) throw badKey(`the ${member} of the jwk is longer than its curve`)
  return encodeBase64url(Buffer.concat([Buffer.alloc(bytes - integer.length), integer]))
}

/** Base64urlUInt (RFC 7518 §2) without its leading zeros. */
function unsignedInteger(value: unknown, member: string): Buffer {
  const bytes = typeof value === 'string' ? decodeBase64url(value) : undefined
  if (bytes === undefined || bytes.length === 0) throw badKey(`the ${member} of the jwk must be a base64url string`)
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start++
  return bytes.subarray(start)
}

function refusedCurve(curve: EcCurve, allowed: readonly EcCurve[]): Problem {
  const key = 'security.allowed_ec_curves'
  const detail = `curve ${curve} is not accepted; use ${allowed.join(' or ')}, or have ${curve} added to ${key}`
  return new Problem('badPublicKey', detail, { key })
}

function badKey(detail: string): Problem {
  return new Problem('badPublicKey', detail)
}
