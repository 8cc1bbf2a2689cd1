/**
 * From the bytes to be signed to what a token is given, and from what it gives back to
 * the signature in a certificate.
 */

import { hash } from 'node:crypto'
import { encodeEcdsaSignature } from '../../../src/shared/lib/ecdsa-signature.ts'
import {
  CURVES,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  type SignatureAlgorithmFacts,
} from '../../../src/shared/pki/algorithms.ts'
import type { Spki } from '../../../src/shared/pki/spki.ts'

export type HashName = NonNullable<SignatureAlgorithmFacts['hash']>

/** A mechanism, a name without its `CKM_`, and what C_Sign is given. */
export interface TokenInput {
  mechanism: string
  input: Buffer
}

export interface TokenOperation {
  hash: HashName
  prepare(data: Buffer): TokenInput
  /** For bytes that were hashed already; absent when the token wants to hash them itself. */
  prepareDigest?(digest: Buffer): TokenInput
  /**
   * The signature value of X.509. @throws Error when the token gave something else than a signature
   */
  finish(raw: Buffer): Buffer
}

/** Every TBSCertificate of a leaf is shorter; bytes. */
const MAX_HASHED_BY_TOKEN = 32 * 1024

/** DER of DigestInfo up to the digest (RFC 8017 §9.2, note 1). */
const DIGEST_INFO_PREFIX: Record<HashName, Buffer> = {
  sha256: Buffer.from('3031300d060960864801650304020105000420', 'hex'),
  sha384: Buffer.from('3041300d060960864801650304020205000430', 'hex'),
  sha512: Buffer.from('3051300d060960864801650304020305000440', 'hex'),
}

/**
 * How this token signs with this algorithm.
 * @param mechanisms what the token can do, names without `CKM_`
 * @throws Error in one sentence when it cannot
 */
export function chooseOperation(
  algorithm: SignatureAlgorithm,
  publicKey: Spki,
  mechanisms: ReadonlySet<string>,
): TokenOperation {
  const { hash: hashName } = SIGNATURE_ALGORITHMS[algorithm]
  if (publicKey.kind === 'ec' && hashName !== null) {
    requireMechanism(mechanisms, 'ECDSA')
    return ecdsa(hashName, CURVES[publicKey.curve].fieldOctets)
  }
  if (publicKey.kind === 'rsa' && hashName !== null) return rsa(hashName, publicKey.modulus.length, mechanisms)
  throw new Error(`keys in a token sign with RSA or ECDSA here, not ${algorithm}`)
}

function requireMechanism(mechanisms: ReadonlySet<string>, name: string, more = ''): void {
  if (mechanisms.has(name)) return
  throw new Error(`the token has not the mechanism CKM_${name}${more && ` ${more}`}`)
}

function ecdsa(hashName: HashName, fieldOctets: number): TokenOperation {
  // FIPS 186-4 §6.4: of a digest longer than the order its leftmost bits. Some
  // tokens refuse to cut it themselves.
  const prepareDigest = (digest: Buffer) => ({ mechanism: 'ECDSA', input: digest.subarray(0, fieldOctets) })
  return {
    hash: hashName,
    prepare: (data) => prepareDigest(hash(hashName, data, 'buffer')),
    prepareDigest,
    // RFC 3279 §2.2.3.
    finish: (raw) => encodeEcdsaSignature(ofLength(raw, 2 * fieldOctets)),
  }
}

/**
 * The mechanism that hashes comes first, since tokens in FIPS mode have it where they refuse to
 * sign a foreign digest; but not for a CRL, which many are too long for, and which a token behind a
 * network would have to be sent.
 */
function rsa(hashName: HashName, modulusOctets: number, mechanisms: ReadonlySet<string>): TokenOperation {
  const hashing = `${hashName.toUpperCase()}_RSA_PKCS`
  const hashesItself = mechanisms.has(hashing)
  const signsDigests = mechanisms.has('RSA_PKCS')
  if (!hashesItself) requireMechanism(mechanisms, 'RSA_PKCS', `nor CKM_${hashing}`)
  const prepareDigest = (digest: Buffer) => ({
    mechanism: 'RSA_PKCS',
    input: Buffer.concat([DIGEST_INFO_PREFIX[hashName], digest]),
  })
  return {
    hash: hashName,
    prepare: (data) =>
      hashesItself && !(signsDigests && data.length > MAX_HASHED_BY_TOKEN)
        ? { mechanism: hashing, input: data }
        : prepareDigest(hash(hashName, data, 'buffer')),
    ...(signsDigests && { prepareDigest }),
    finish: (raw) => ofLength(raw, modulusOctets),
  }
}

function ofLength(raw: Buffer, octets: number): Buffer {
  if (raw.length === octets) return raw
  throw new Error(`the token gave a signature of ${raw.length} octets instead of ${octets}`)
}
