/**
 * ECDSA P-256 signing of the generator (RFC 7518 §3.4), in two ways.
 *
 * `openssl` is `node:crypto`. `precomputed` does the expensive half of ECDSA, k·G and 1/k, once for a small set of
 * values k and then reuses them in turn, which leaves two multiplications modulo n per signature: about a seventh of
 * the CPU. The signatures are valid, but two with the same k give the private key away to whoever sees both. So it
 * is for throwaway keys against a server on this machine only, where it is the default, and never elsewhere by default.
 */

import { createECDH, createPrivateKey, type ECDH, hash, type KeyObject, sign } from 'node:crypto'

export const SIGNING = ['openssl', 'precomputed'] as const
export type Signing = (typeof SIGNING)[number]

export interface PublicJwk {
  crv: 'P-256'
  kty: 'EC'
  x: string
  y: string
}

export interface EcKey {
  jwk: PublicJwk
  /** The private scalar in base64url, for a file of accounts. */
  secret(): string
  /** SHA-256 with ECDSA; the 64 bytes r ‖ s as `encoding`. A string is ASCII. */
  sign(data: string | Buffer, encoding: 'base64url' | 'hex'): string
}

/** A fresh key, or one that was saved. */
export type NewKey = (saved?: SavedKey) => EcKey

export interface SavedKey {
  x: string
  y: string
  /** The private scalar. */
  d: string
}

/** Order n of the group P-256 (SP 800-186 §3.2.1.3). */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/** Enough that one server never sees neighbours in time share a k; small enough to be made in a few milliseconds. */
const PRECOMPUTED = 64

interface Ephemeral {
  r: bigint
  rHex: string
  /** 1/k mod n. */
  inverse: bigint
}

/** @returns a maker of fresh keys that sign in the given way. */
export function keyMaker(signing: Signing): NewKey {
  const curve = createECDH('prime256v1')
  if (signing === 'openssl') return (saved) => opensslKey(partsOf(curve, saved))

  const ephemerals = Array.from({ length: PRECOMPUTED }, () => ephemeral(curve))
  return (saved) => precomputedKey(partsOf(curve, saved), ephemerals)
}

interface KeyParts {
  jwk: PublicJwk
  d: Buffer
}

function partsOf(curve: ECDH, saved: SavedKey | undefined): KeyParts {
  if (!saved) return generate(curve)
  const { x, y, d } = saved
  return { jwk: { crv: 'P-256', kty: 'EC', x, y }, d: Buffer.from(d, 'base64url') }
}

function opensslKey({ jwk, d }: KeyParts): EcKey {
  const secret = d.toString('base64url')
  const key: KeyObject = createPrivateKey({ format: 'jwk', key: { ...jwk, d: secret } })
  const options = { key, dsaEncoding: 'ieee-p1363' } as const
  return {
    jwk,
    secret: () => secret,
    sign: (data, encoding) => sign('sha256', asBuffer(data), options).toString(encoding),
  }
}

function precomputedKey({ jwk, d }: KeyParts, ephemerals: readonly Ephemeral[]): EcKey {
  const secret = BigInt(`0x${d.toString('hex')}`)
  let next = 0
  return {
    jwk,
    secret: () => Buffer.from(hex32(secret), 'hex').toString('base64url'),
    sign(data, encoding) {
      const { r, rHex, inverse } = ephemerals[next++ % PRECOMPUTED]!
      const digest = BigInt(`0x${hash('sha256', data, 'hex')}`)
      const s = (inverse * (digest + r * secret)) % ORDER
      const signature = rHex + hex32(s)
      return encoding === 'hex' ? signature : Buffer.from(signature, 'hex').toString('base64url')
    },
  }
}

function generate(curve: ECDH): KeyParts {
  const point = curve.generateKeys()
  const d = Buffer.alloc(32)
  const scalar = curve.getPrivateKey()
  scalar.copy(d, 32 - scalar.length)
  const x = point.subarray(1, 33).toString('base64url')
  const y = point.subarray(33, 65).toString('base64url')
  return { jwk: { crv: 'P-256', kty: 'EC', x, y }, d }
}

function ephemeral(curve: ECDH): Ephemeral {
  const point = curve.generateKeys()
  const r = BigInt(`0x${point.subarray(1, 33).toString('hex')}`) % ORDER
  const k = BigInt(`0x${curve.getPrivateKey('hex')}`)
  return { r, rHex: hex32(r), inverse: power(k, ORDER - 2n) }
}

/** base^exponent mod n; with n - 2 the inverse, by Fermat. */
function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let square = base, bits = exponent; bits > 0n; bits >>= 1n) {
    if (bits & 1n) result = (result * square) % ORDER
    square = (square * square) % ORDER
  }
  return result
}

function asBuffer(data: string | Buffer): Buffer {
  return typeof data === 'string' ? Buffer.from(data, 'latin1') : data
}

function hex32(value: bigint): string {
  return value.toString(16).padStart(64, '0')
}
