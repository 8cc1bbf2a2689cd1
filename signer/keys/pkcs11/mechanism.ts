/** Prepares the input of a token's signature, and converts the output to the signature of a certificate. */

import { hash } from 'node:crypto'
import { encodeEcdsaSignature } from '../../../src/shared/lib/encoding.ts'
import {
  CURVES,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  type SignatureAlgorithmFacts,
  type Spki,
} from '../../../src/shared/pki/algorithms.ts'

type HashName = NonNullable<SignatureAlgorithmFacts['hash']>

/** Name of a mechanism without its `CKM_`, and the input of C_Sign. */
export interface TokenInput {
  mechanism: string
  input: Buffer
}

export interface TokenOperation {
  hash: HashName
  prepare(data: Buffer): TokenInput
  /** Takes a digest. Absent when the token insists on hashing. */
  prepareDigest?(digest: Buffer): TokenInput
  /** Returns the signature value of X.509. @throws Error when the output has the wrong length */
  finish(raw: Buffer): Buffer
}

/** In bytes. Every TBSCertificate of a leaf is shorter. */
const MAX_HASHED_BY_TOKEN = 32 * 1024

/** DER of DigestInfo up to the digest (RFC 8017 §9.2, note 1). */
const DIGEST_INFO_PREFIX: Record<HashName, Buffer> = {
  sha256: Buffer.from('3031300d060960864801650304020105000420', 'hex'),
  sha384: Buffer.from('3041300d060960864801650304020205000430', 'hex'),
  sha512: Buffer.from('3051300d060960864801650304020305000440', 'hex'),
}

/**
 * Chooses how the token signs with the algorithm.
 * @param mechanisms mechanisms of the token, names without `CKM_`
 * @throws Error in one sentence when the token cannot
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
  // FIPS 186-4 §6.4: only the leftmost bits of a digest longer than the order. Some tokens refuse to truncate it.
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
 * Prefers the mechanism that hashes: tokens in FIPS mode refuse to sign a foreign digest. A long
 * CRL is hashed here if possible: it exceeds the limit of many tokens, or would cross a network.
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
