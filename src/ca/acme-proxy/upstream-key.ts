/** The key of the upstream account, and the JWS that it signs (RFC 8555 §6.2). */

import { createHmac, createPublicKey, type KeyObject, sign } from 'node:crypto'
import type { JsonObject } from '../../shared/lib/encoding.ts'
import { encodeBase64url } from '../../shared/lib/encoding.ts'
import { type AccountKey, CERTIFICATE_KEYS, parseAccountKey } from '../../shared/protocol/jwk.ts'
import { JWS_ALGORITHMS, type JwsAlgorithm } from '../../shared/protocol/jws.ts'

export interface UpstreamKey extends Pick<AccountKey, 'jwk' | 'thumbprint'> {
  alg: JwsAlgorithm
  privateKey: KeyObject
}

/** @throws Problem badPublicKey for a kind of key that no ACME server takes */
export function upstreamKey(privateKey: KeyObject): UpstreamKey {
  const publicJwk = createPublicKey(privateKey).export({ format: 'jwk' }) as JsonObject
  const { jwk, thumbprint, algorithms } = parseAccountKey(publicJwk, CERTIFICATE_KEYS)
  return { jwk, thumbprint, alg: algorithms[0] as JwsAlgorithm, privateKey }
}

/** Members of the protected header beside `alg`; `jwk` is left out when `kid` is there. */
interface SignedHeader {
  url: string
  nonce: string
  kid?: string | undefined
}

/** @param payload undefined for a POST-as-GET (RFC 8555 §6.3) */
export function signedRequest(key: UpstreamKey, header: SignedHeader, payload: object | undefined): string {
  const { url, nonce, kid } = header
  const who = kid === undefined ? { jwk: JSON.parse(key.jwk) } : { kid }
  const signingInput = inputOf({ alg: key.alg, nonce, url, ...who }, payload)
  return flattened(signingInput, signatureOf(key, signingInput))
}

export interface ExternalCredential {
  kid: string
  hmacKey: Buffer
}

/** RFC 8555 §7.3.4. */
export function externalBinding({ kid, hmacKey }: ExternalCredential, key: UpstreamKey, url: string): object {
  const signingInput = inputOf({ alg: 'HS256', kid, url }, JSON.parse(key.jwk))
  return JSON.parse(flattened(signingInput, createHmac('sha256', hmacKey).update(signingInput).digest()))
}

const encoded = (value: object) => encodeBase64url(Buffer.from(JSON.stringify(value)))

function inputOf(header: object, payload: object | undefined): string {
  return `${encoded(header)}.${payload === undefined ? '' : encoded(payload)}`
}

function flattened(signingInput: string, signature: Buffer): string {
  const [header, payload] = signingInput.split('.')
  return JSON.stringify({ protected: header, payload, signature: encodeBase64url(signature) })
}

/** RFC 7518 §3.4: an ECDSA signature is R and S, not DER. */
function signatureOf({ alg, privateKey }: UpstreamKey, signingInput: string): Buffer {
  const { hash } = JWS_ALGORITHMS[alg]
  return sign(hash, Buffer.from(signingInput), { key: privateKey, dsaEncoding: 'ieee-p1363' })
}
