/**
 * Whether a public key is a point that a private key can belong to. A signature proves it, but the
 * signer sees none.
 */

import type { Curve } from './algorithms.ts'

interface CurveParameters {
  prime: bigint
  /** The b in y² = x³ - 3x + b. */
  b: bigint
}

/**
 * SP 800-186 §3.2.1, referenced by FIPS 186-5. All three have a prime number of points, so each
 * point generates them all.
 */
const CURVE_PARAMETERS: Readonly<Record<Curve, CurveParameters>> = {
  'P-256': {
    prime: 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n,
    b: 0x5ac635d8_aa3a93e7_b3ebbd55_769886bc_651d06b0_cc53b0f6_3bce3c3e_27d2604bn,
  },
  'P-384': {
    prime: 2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n,
    b: 0xb3312fa7_e23ee7e4_988e056b_e3f82d19_181d9c6e_fe814112_0314088f_5013875a_c656398d_8a2ed19d_2a85c8ed_d3ec2aefn,
  },
  'P-521': {
    prime: 2n ** 521n - 1n,
    b: 0x51_953eb961_8e1c9a1f_929a21a0_b68540ee_a2da725b_99b315f3_b8b48991_8ef109e1_56193951_ec7e937b_1652c0bd_3bb1bf07_3573df88_3d2c34f1_ef451fd4_6b503f00n,
  },
}

/**
 * Takes 2 µs for P-256, where an import by OpenSSL takes 400.
 * @param keyBits an uncompressed point of the curve's length
 */
export function isOnCurve(curve: Curve, keyBits: Buffer): boolean {
  const { prime, b } = CURVE_PARAMETERS[curve]
  const octets = (keyBits.length - 1) / 2
  const x = BigInt(`0x${keyBits.toString('hex', 1, 1 + octets)}`)
  const y = BigInt(`0x${keyBits.toString('hex', 1 + octets)}`)
  return x < prime && y < prime && (y * y - (x * x - 3n) * x - b) % prime === 0n
}

/**
 * The y of the eight points of small order on edwards25519, little-endian, in every encoding of 255
 * bits.
 */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  '00'.repeat(32),
  `01${'00'.repeat(31)}`,
  `ec${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(30)}7f`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
])

/** Signatures verify under such a key although no private key made them (RFC 8032 §5.1.7). */
export function isOfSmallOrder(ed25519Key: Buffer): boolean {
  const withoutSign = Buffer.from(ed25519Key)
  withoutSign[31]! &= 0x7f
  return SMALL_ORDER.has(withoutSign.toString('hex'))
}
