/** Flattened JWS objects of ACME requests (RFC 8555 §6.2, RFC 7515 §7.2.2) and JWK thumbprints (RFC 7638). */

import { createHash } from 'node:crypto'
import type { EcKey, PublicJwk } from './signer.ts'

/** Who signs: a key that introduces itself (new-account), or a known account. */
export type KeyReference = { jwk: PublicJwk } | { kid: string }

/**
 * The protected header up to the members that change, so that it is written once per account.
 * Texts are put between quotes as they are: URLs and nonces hold neither quotes nor backslashes.
 */
export function headerPrefix(reference: KeyReference): string {
  const who = 'kid' in reference ? `"kid":"${reference.kid}"` : `"jwk":${JSON.stringify(reference.jwk)}`
  return `{"alg":"ES256",${who},"nonce":"`
}

/** @param payload JSON text; empty for POST-as-GET (RFC 8555 §6.3). */
export function signJws(key: EcKey, prefix: string, nonce: string, url: string, payload: string): string {
  const header = encode(`${prefix}${nonce}","url":"${url}"}`)
  const body = payload === '' ? '' : encode(payload)
  const signature = key.sign(`${header}.${body}`, 'base64url')
  return `{"protected":"${header}","payload":"${body}","signature":"${signature}"}`
}

/** The JWS inside a key change (RFC 8555 §7.3.5): by the new key, which introduces itself, and without a nonce. */
export function innerJws(key: EcKey, url: string, payload: string): string {
  const header = encode(JSON.stringify({ alg: 'ES256', jwk: key.jwk, url }))
  const body = encode(payload)
  return `{"protected":"${header}","payload":"${body}","signature":"${key.sign(`${header}.${body}`, 'base64url')}"}`
}

/** Base64url of the SHA-256 over the members in lexicographic order (RFC 7638 §3). */
export function thumbprint({ crv, kty, x, y }: PublicJwk): string {
  return createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url')
}

/** ASCII only, which lets the cheaper latin1 path do. */
function encode(text: string): string {
  return Buffer.from(text, 'latin1').toString('base64url')
}
