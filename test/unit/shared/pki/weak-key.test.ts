import assert from 'node:assert/strict'
import { generatePrimeSync, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type PublicKeyFacts, parseSpki, type Spki } from '../../../../src/shared/pki/algorithms.ts'
import { checkSubjectKey, DEFAULT_SUBJECT_KEY_POLICY } from '../../../../src/shared/pki/weak-key.ts'
import { forAllIn } from '../../../support/property-runs.ts'
import { ALL_KEYS, ED25519_KEY, P256_KEY, RSA_KEY } from './support.ts'

const toBigInt = (octets: Buffer) => BigInt(`0x${octets.toString('hex')}`)

function rsa(modulus: bigint, exponent = 65537n): Spki {
  const text = modulus.toString(16)
  const octets = Buffer.from(text.padStart(text.length + (text.length % 2), '0'), 'hex')
  const facts: PublicKeyFacts = { kind: 'rsa', bits: modulus.toString(2).length, exponent, modulus: octets }
  return { ...facts, der: Buffer.alloc(0), keyBits: Buffer.alloc(0) }
}

const check = (spki: Spki, policy = DEFAULT_SUBJECT_KEY_POLICY) => checkSubjectKey(spki, policy)

const facts = parseSpki(RSA_KEY.spki)
assert.ok(facts.kind === 'rsa')
const good = toBigInt(facts.modulus)

/** Number with exactly `bits` bits, without small factors up to 167 unless `residue` has them. */
function congruentTo(residue: bigint, modulus: bigint, bits: number): bigint {
  const top = 1n << BigInt(bits - 1)
  const start = top + (toBigInt(randomBytes(bits / 8)) % (top / 2n))
  return start - (start % modulus) + residue
}

const SMALL_PRIMES = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]
const PRIMES = [...SMALL_PRIMES, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167]
/** 2 · 3 · 5 ⋯ 167: the primes of the faulty generator are powers of 65537 modulo this number. */
const PRIMORIAL = PRIMES.reduce((product, prime) => product * BigInt(prime), 2n)

function powerModulo(base: bigint, exponent: number, modulus: bigint): bigint {
  let power = 1n
  for (let i = 0; i < exponent; i++) power = (power * base) % modulus
  return power
}

/** A key that was changed behind the header of its SubjectPublicKeyInfo. */
const changed = (spki: Buffer, change: (keyBits: Buffer) => void): Spki => {
  const copy = parseSpki(Buffer.from(spki))
  change(copy.keyBits)
  return copy
}

describe('subject keys that may be certified', () => {
  for (const key of ALL_KEYS)
    test(`a fresh ${key.label} key is accepted`, () => assert.equal(check(parseSpki(key.spki)), undefined))

  for (const key of ALL_KEYS.filter(({ label }) => label.startsWith('P-'))) {
    test(`a ${key.label} key that is no point of its curve is refused (RFC 5480 §2.2)`, () => {
      // Only two points share an x.
      const elsewhere = changed(key.spki, (keyBits) => (keyBits[keyBits.length - 1]! ^= 1))
      assert.match(check(elsewhere) ?? 'accepted', /^the key is not a point of P-\d+$/)
      const beyond = changed(key.spki, (keyBits) => keyBits.fill(0xff, 1))
      assert.match(check(beyond) ?? 'accepted', /is not a point of/)
      assert.match(check(changed(key.spki, (keyBits) => keyBits.fill(0, 1))) ?? 'accepted', /is not a point of/)
    })
  }

  const SMALL_ORDER = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0000000000000000000000000000000000000000000000000000000000000080',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  ]
  for (const point of SMALL_ORDER)
    test(`an Ed25519 key of small order is refused: ${point.slice(0, 8)}…${point.slice(-2)}`, () => {
      const small = changed(ED25519_KEY.spki, (keyBits) => keyBits.set(Buffer.from(point, 'hex')))
      assert.match(check(small) ?? 'accepted', /^the Ed25519 key is of small order/)
    })

  const edges: [string, Spki, RegExp | undefined][] = [
    ['2048 bits', rsa(good), undefined],
    ['2047 bits', rsa((1n << 2046n) + 1n), /at least 2048 bits, this one has 2047/],
    ['8193 bits', rsa((1n << 8192n) + 1n), /at most 8192 bits, this one has 8193/],
    ['an exponent of 3', rsa(good, 3n), /between 65537/],
    ['an exponent of 65535', rsa(good, 65535n), /between 65537/],
    ['an exponent of 2^32 - 1', rsa(good, 2n ** 32n - 1n), undefined],
    ['an exponent of 2^32 + 1', rsa(good, 2n ** 32n + 1n), /between 65537/],
    ['an even exponent', rsa(good, 65538n), /exponent must be odd/],
    ['an even modulus', rsa(good + 1n), /modulus must be odd/],
  ]
  for (const [what, spki, refusal] of edges)
    test(`RSA with ${what} is ${refusal ? 'refused' : 'accepted'}`, () => {
      const reason = check(spki)
      if (refusal) assert.match(reason ?? '', refusal)
      else assert.equal(reason, undefined)
    })

  for (const prime of [3, 167, 173, 751])
    test(`a modulus divisible by ${prime} is refused`, () => {
      const multiple = good - (good % BigInt(2 * prime)) + BigInt(prime)
      assert.match(check(rsa(multiple)) ?? '', /divisible by/)
    })

  test('a modulus with the ROCA fingerprint is refused', () => {
    for (let exponent = 1; exponent <= 50; exponent += 7) {
      const made = () => check(rsa(congruentTo(powerModulo(65537n, exponent, PRIMORIAL), PRIMORIAL, 2048)))
      // One in four has a factor from 173 to 751 and is refused for that.
      let reason = made()
      while (reason?.includes('divisible')) reason = made()
      assert.match(reason ?? '', /ROCA/)
    }
  })

  test('a modulus of two neighbouring factors is refused', () => {
    for (const distance of [2n, 1000n, 2n ** 280n]) {
      const made = () => {
        const p = generatePrimeSync(1024, { bigint: true })
        // Multiples of the primorial keep the second factor free of the smallest divisors.
        return check(rsa(p * (p + distance * PRIMORIAL)))
      }
      let reason = made()
      while (reason?.includes('divisible')) reason = made()
      assert.match(reason ?? '', /close primes/)
    }
  })

  test('a square is refused', () => {
    const p = generatePrimeSync(1024, { bigint: true })
    assert.match(check(rsa(p * p)) ?? '', /close primes/)
  })

  // n = a^2 - b^2 is found in the round that reaches a; b^2 = 2·a·k puts it k rounds after the square root of n.
  for (const [rounds, refused] of [
    [1n, true],
    [98n, true],
    [150n, false],
  ] as const) {
    test(`factors that Fermat finds after ${rounds} rounds are ${refused ? 'refused' : 'accepted'}`, () => {
      // Most such products have a small divisor and are refused for that; the first few others decide.
      const decided: (string | undefined)[] = []
      while (decided.length < 3) {
        const reason = check(rsa(productFoundAfter(rounds)))
        if (!reason?.includes('divisible')) decided.push(reason)
      }
      for (const reason of decided) assert.equal(reason?.includes('close primes') ?? false, refused)
    })
  }

  test('fresh moduli of unrelated primes pass', () => {
    for (let round = 0; round < 5; round++) {
      const [p, q] = [generatePrimeSync(1024, { bigint: true }), generatePrimeSync(1024, { bigint: true })]
      assert.equal(check(rsa(p * q)), undefined)
    }
  })

  test('the policy decides on curves and Ed25519', () => {
    const policy = { ...DEFAULT_SUBJECT_KEY_POLICY, curves: ['P-384'] as const, ed25519: false }
    assert.match(check(parseSpki(P256_KEY.spki), policy) ?? '', /P-256/)
    assert.match(check(parseSpki(ALL_KEYS[4]!.spki), policy) ?? '', /Ed25519/)
    assert.equal(check(parseSpki(ALL_KEYS[2]!.spki), policy), undefined)
  })

  test('a key of an unsupported type is refused by its OID', () => {
    const spki: Spki = { kind: 'unsupported', oid: '1.3.132.0.10', der: Buffer.alloc(0), keyBits: Buffer.alloc(0) }
    assert.match(check(spki) ?? '', /1\.3\.132\.0\.10/)
  })

  test('decides on any odd modulus', () =>
    forAllIn({ numRuns: 20 }, fc.bigInt({ min: 1n << 2047n, max: (1n << 2048n) - 1n }), (modulus) => {
      const reason = check(rsa(modulus | 1n))
      assert.ok(reason === undefined || reason.length > 0)
    }))
})

function productFoundAfter(rounds: bigint): bigint {
  const a = (3n << 1022n) + (toBigInt(randomBytes(120)) << 1n)
  const b = squareRoot(2n * a * rounds) | 1n
  return (a - b) * (a + b)
}

function squareRoot(value: bigint): bigint {
  let root = 1n << BigInt((value.toString(2).length / 2 + 1) | 0)
  for (;;) {
    const next = (root + value / root) >> 1n
    if (next >= root) return root
    root = next
  }
}
