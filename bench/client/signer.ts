/** Keys of the generator, ECDSA P-256 with SHA-256 (RFC 7518 §3.4), and certification requests by them (RFC 2986). */

import { generateKeyPairSync, sign } from 'node:crypto'
import { buildCsr } from '../../src/shared/pki/csr-writer.ts'

export interface PublicJwk {
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
  const { x, y } = publicKey.export({ format: 'jwk' }) as { x: string; y: string }
  return {
    jwk: { crv: 'P-256', kty: 'EC', x, y },
    spki: publicKey.export({ format: 'der', type: 'spki' }),
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
