/** A signed ACME request that changes nothing: it asks for the account of a key that was made just now. */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { JwsAlgorithm } from '../../shared/protocol/jws.ts'

const KEYS: Partial<
  Record<JwsAlgorithm, { make: () => { publicKey: KeyObject; privateKey: KeyObject }; hash: string | null }>
> = {
  ES256: { make: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }), hash: 'sha256' },
  ES384: { make: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }), hash: 'sha384' },
  EdDSA: { make: () => generateKeyPairSync('ed25519'), hash: null },
  RS256: { make: () => generateKeyPairSync('rsa', { modulusLength: 2048 }), hash: 'sha256' },
}

/** @returns a flattened JWS; undefined where the service takes none of these algorithms */
export function askForAccount(url: string, nonce: string, allowed: readonly string[]): string | undefined {
  const [alg, kind] = Object.entries(KEYS).find(([name]) => allowed.includes(name)) ?? []
  if (alg === undefined || !kind) return undefined
  const { publicKey, privateKey } = kind.make()
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const protectedHeader = encoded({ alg, nonce, url, jwk: publicKey.export({ format: 'jwk' }) })
  const payload = encoded({ onlyReturnExisting: true })
  const data = Buffer.from(`${protectedHeader}.${payload}`)
  const signature = sign(kind.hash, data, { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
  return JSON.stringify({ protected: protectedHeader, payload, signature })
}
