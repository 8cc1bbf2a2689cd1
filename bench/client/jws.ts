/**
 * Keys of the generator (ECDSA P-256 with SHA-256, RFC 7518 §3.4): flattened JWS objects of ACME requests
 * (RFC 8555 §6.2, RFC 7515 §7.2.2), JWK thumbprints (RFC 7638) and certification requests (RFC 2986).
 */

import { generateKeyPairSync, hash, sign } from 'node:crypto'
import { buildCsr } from '../../src/shared/pki/csr.ts'

interface PublicJwk {
  crv: 'P-256'
  kty: 'EC'
  x: string
  y: string
}

export interface EcKey {
  jwk: PublicJwk
  /** DER of the SubjectPublicKeyInfo. */
  spki: Buffer
  /** r ‖ s for a JWS, Ecdsa-Sig-Value (RFC 3279 §2.2.3) for X.509. */
  sign(data: Buffer, form: 'jws' | 'x509'): Buffer
}

export function newKey(): EcKey {
  const { privateKey: key, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // Not as JWK: Node 20 then waits for ever when it collects the job that generated the key (test/support/jwk.ts).
  const spki = publicKey.export({ format: 'der', type: 'spki' })
  const coordinate = (from: number, to?: number) => spki.subarray(from, to).toString('base64url')
  return {
    jwk: { crv: 'P-256', kty: 'EC', x: coordinate(-64, -32), y: coordinate(-32) },
    spki,
    sign: (data, form) => sign('sha256', data, { key, dsaEncoding: form === 'jws' ? 'ieee-p1363' : 'der' }),
  }
}

/** @returns a function from a DNS name to the base64url DER of a request by `key` */
export function csrMaker({ spki, sign }: EcKey): (name: string) => string {
  const fields = {
    spki,
    ipAddresses: [],
    signatureAlgorithm: 'SHA256withECDSA',
    sign: (info: Buffer) => sign(info, 'x509'),
  } as const
  return (name) => buildCsr({ ...fields, dnsNames: [name] }).toString('base64url')
}

/**
 * The protected header up to the nonce, so that it is written once per account.
 * Texts stand between quotes as they are: URLs and nonces hold neither quotes nor backslashes.
 */
export function headerPrefix(reference: { jwk: PublicJwk } | { kid: string }): string {
  const who = 'kid' in reference ? `"kid":"${reference.kid}"` : `"jwk":${JSON.stringify(reference.jwk)}`
  return `{"alg":"ES256",${who},"nonce":"`
}

/** @param payload JSON text; empty for POST-as-GET (RFC 8555 §6.3) */
export function signJws(key: EcKey, prefix: string, nonce: string, url: string, payload: string): string {
  return flattened(key, `${prefix}${nonce}","url":"${url}"}`, payload)
}

/** The JWS inside a key change (RFC 8555 §7.3.5): by the new key, which introduces itself, and without a nonce. */
export function innerJws(key: EcKey, url: string, payload: string): string {
  return flattened(key, JSON.stringify({ alg: 'ES256', jwk: key.jwk, url }), payload)
}

/** Base64url of the SHA-256 over the members in lexicographic order (RFC 7638 §3). */
export function thumbprint({ crv, kty, x, y }: PublicJwk): string {
  return hash('sha256', JSON.stringify({ crv, kty, x, y }), 'base64url')
}

function flattened(key: EcKey, header: string, payload: string): string {
  const [head, body] = [header, payload].map((text) => Buffer.from(text, 'latin1').toString('base64url'))
  const signature = key.sign(Buffer.from(`${head}.${body}`, 'latin1'), 'jws').toString('base64url')
  return `{"protected":"${head}","payload":"${body}","signature":"${signature}"}`
}
