/** Flattened JWS objects of ACME requests (RFC 8555 §6.2, RFC 7515 §7.2.2) and JWK thumbprints (RFC 7638). */

import { hash } from 'node:crypto'
import type { EcKey, PublicJwk } from './signer.ts'

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
