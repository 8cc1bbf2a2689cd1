/**
 * Refuses subject keys that must not be certified (docs/decisions/subject-keys.md; Baseline Requirements §6.1.1.3).
 *
 * These are keys of the wrong kind or size, RSA moduli that can be factored, and invalid octets. The tests on the
 * modulus are cheap sieves, not proofs. A bad key may pass; a good one fails with a chance below 2^-25 (ROCA).
 */

import type { Curve, PublicKeyFacts, Spki } from './algorithms.ts'

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
function isOnCurve(curve: Curve, keyBits: Buffer): boolean {
  const { prime, b } = CURVE_PARAMETERS[curve]
  const octets = (keyBits.length - 1) / 2
  const x = BigInt(`0x${keyBits.toString('hex', 1, 1 + octets)}`)
  const y = BigInt(`0x${keyBits.toString('hex', 1 + octets)}`)
  return x < prime && y < prime && (y * y - (x * x - 3n) * x - b) % prime === 0n
}

/** The y of the eight points of small order on edwards25519, little-endian, in every encoding of 255 bits. */
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
function isOfSmallOrder(ed25519Key: Buffer): boolean {
  const withoutSign = Buffer.from(ed25519Key)
  withoutSign[31]! &= 0x7f
  return SMALL_ORDER.has(withoutSign.toString('hex'))
}

export interface SubjectKeyPolicy {
  rsaMinBits: number
  rsaMaxBits: number
  curves: readonly Curve[]
  ed25519: boolean
}

export const DEFAULT_SUBJECT_KEY_POLICY: SubjectKeyPolicy = {
  rsaMinBits: 2048,
  rsaMaxBits: 8192,
  curves: ['P-256', 'P-384', 'P-521'],
  ed25519: true,
}

/** Above 8192 bits a verification costs clients too much. The cost of the sieves grows with the square. */
export const RSA_BITS_LIMIT = 8192

const MIN_EXPONENT = 65537n
const MAX_EXPONENT = 2n ** 32n - 1n
const FERMAT_ROUNDS = 100

/** Why the key is refused, as a sentence for a client; undefined when accepted. About 0.1 ms for RSA-2048. */
export function checkSubjectKey(spki: Spki, policy: SubjectKeyPolicy): string | undefined {
  switch (spki.kind) {
    case 'rsa':
      return checkRsaKey(spki, policy)
    case 'ec':
      if (!policy.curves.includes(spki.curve)) return `keys on ${spki.curve} are not accepted`
      return isOnCurve(spki.curve, spki.keyBits) ? undefined : `the key is not a point of ${spki.curve}`
    case 'ed25519':
      if (!policy.ed25519) return 'Ed25519 keys are not accepted'
      return isOfSmallOrder(spki.keyBits) ? 'the Ed25519 key is of small order' : undefined
    case 'unsupported':
      return `keys of type ${spki.oid} are not supported`
  }
}

function checkRsaKey(key: PublicKeyFacts & { kind: 'rsa' }, policy: SubjectKeyPolicy): string | undefined {
  const maxBits = Math.min(policy.rsaMaxBits, RSA_BITS_LIMIT)
  if (key.bits < policy.rsaMinBits) return `RSA keys need at least ${policy.rsaMinBits} bits, this one has ${key.bits}`
  if (key.bits > maxBits) return `RSA keys may have at most ${maxBits} bits, this one has ${key.bits}`
  if (key.exponent < MIN_EXPONENT || key.exponent > MAX_EXPONENT) {
    return 'the RSA exponent must lie between 65537 and 2^32-1'
  }
  if (key.exponent % 2n === 0n) return 'the RSA exponent must be odd'
  const modulus = BigInt(`0x${key.modulus.toString('hex')}`)
  if (modulus % 2n === 0n) return 'the RSA modulus must be odd'
  const residues = smallResidues(modulus)
  const factor = SMALL_PRIMES.find((_, index) => residues[index] === 0)
  if (factor !== undefined) return `the RSA modulus is divisible by ${factor}`
  if (hasRocaFingerprint(residues)) return 'the RSA key was made by a faulty generator (ROCA, CVE-2017-15361)'
  if (hasClosePrimes(modulus)) return 'the RSA modulus is a product of two close primes'
  return undefined
}

/** NIST SP 800-89 §5.3.3 and Baseline Requirements §6.1.6 allow no factor below 752. */
const SMALL_PRIMES: readonly number[] = primesBetween(3, 751)
const SMALL_PRIMES_PRODUCT = SMALL_PRIMES.reduce((product, prime) => product * BigInt(prime), 1n)

/**
 * For each prime to 167, the residues that are powers of 65537. Primes of the faulty generator have
 * them, and so their products.
 */
const POWERS_OF_65537: readonly (readonly boolean[])[] = SMALL_PRIMES.filter((prime) => prime <= 167).map(powersOf65537)

/** The modulus modulo each small prime: one long division, then short ones. */
function smallResidues(modulus: bigint): number[] {
  const rest = modulus % SMALL_PRIMES_PRODUCT
  return SMALL_PRIMES.map((prime) => Number(rest % BigInt(prime)))
}

/** Nemec, Sys et al., "The Return of Coppersmith's Attack" (2017), §2.2. A false alarm has a chance of about 2^-27. */
function hasRocaFingerprint(residues: readonly number[]): boolean {
  return POWERS_OF_65537.every((powers, index) => powers[residues[index]!])
}

/** Fermat's method finds p and q whose distance is small against the fourth root of the modulus. */
function hasClosePrimes(modulus: bigint): boolean {
  let root = integerSquareRoot(modulus)
  if (root * root < modulus) root += 1n
  let difference = root * root - modulus
  for (let round = 0; round < FERMAT_ROUNDS; round++) {
    if (isSquare(difference)) return true
    difference += 2n * root + 1n
    root += 1n
  }
  return false
}

/** Squares are rare modulo 63, 65 and 11. With the low six bits one number in 140 needs a real root. */
const RESIDUE_MODULI = [64, 63, 65, 11] as const
const SQUARE_RESIDUES = RESIDUE_MODULI.map((modulus) => {
  const squares = new Array<boolean>(modulus).fill(false)
  for (let value = 0; value < modulus; value++) squares[(value * value) % modulus] = true
  return squares
})

function isSquare(value: bigint): boolean {
  if (!SQUARE_RESIDUES[0]![Number(BigInt.asUintN(6, value))]) return false
  const rest = Number(value % 45045n)
  for (let i = 1; i < RESIDUE_MODULI.length; i++) {
    if (!SQUARE_RESIDUES[i]![rest % RESIDUE_MODULI[i]!]) return false
  }
  const root = integerSquareRoot(value)
  return root * root === value
}

/** The largest integer whose square is at most `value`. Newton's method from above, so it only falls. */
function integerSquareRoot(value: bigint): bigint {
  if (value < 2n) return value
  const bits = value.toString(16).length * 4
  let root = 1n << BigInt((bits >> 1) + 1)
  for (;;) {
    const next = (root + value / root) >> 1n
    if (next >= root) return root
    root = next
  }
}

function powersOf65537(prime: number): boolean[] {
  const powers = new Array<boolean>(prime).fill(false)
  for (let power = 1; !powers[power]; power = (power * 65537) % prime) powers[power] = true
  return powers
}

function primesBetween(first: number, last: number): number[] {
  const primes: number[] = []
  for (let candidate = first; candidate <= last; candidate++) {
    let divisor = 2
    while (divisor * divisor <= candidate && candidate % divisor !== 0) divisor++
    if (divisor * divisor > candidate) primes.push(candidate)
  }
  return primes
}
