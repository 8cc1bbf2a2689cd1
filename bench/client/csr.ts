/**
 * Certification requests (RFC 2986) for one DNS name and a P-256 key, from a template.
 *
 * Subject empty, the name in a subjectAltName extension request. Kept this small because one is signed per certificate
 * inside the measured time.
 */

import type { EcKey } from './signer.ts'

const VERSION_AND_EMPTY_SUBJECT = '0201003000'
/** SEQUENCE { id-ecPublicKey, prime256v1 }, then the BIT STRING of an uncompressed point (RFC 5480 §2). */
const P256_SPKI_PREFIX = '3059301306072a8648ce3d020106082a8648ce3d030107034200' + '04'
const OID_EXTENSION_REQUEST = '06092a864886f70d01090e'
const OID_SUBJECT_ALT_NAME = '0603551d11'
const ECDSA_WITH_SHA256 = '300a06082a8648ce3d040302'

/** The DER SubjectPublicKeyInfo of a P-256 key, in hex. */
export function spkiHex(key: EcKey): string {
  const coordinate = (value: string) => Buffer.from(value, 'base64url').toString('hex')
  return P256_SPKI_PREFIX + coordinate(key.jwk.x) + coordinate(key.jwk.y)
}

/** @returns a function from a DNS name to the base64url DER of a request by `key`. */
export function csrMaker(key: EcKey): (name: string) => string {
  const spki = spkiHex(key)
  return (name) => {
    const altNames = der('30', der('82', Buffer.from(name, 'latin1').toString('hex')))
    const extension = der('30', OID_SUBJECT_ALT_NAME + der('04', altNames))
    const attributes = der('a0', der('30', OID_EXTENSION_REQUEST + der('31', der('30', extension))))
    const info = der('30', VERSION_AND_EMPTY_SUBJECT + spki + attributes)
    const signature = signatureDer(key.sign(Buffer.from(info, 'hex'), 'hex'))
    const request = der('30', info + ECDSA_WITH_SHA256 + der('03', `00${signature}`))
    return Buffer.from(request, 'hex').toString('base64url')
  }
}

/** Tag and content as hex; lengths up to 65535, which 253 octets of name never reach. */
export function der(tag: string, content: string): string {
  const length = content.length / 2
  if (length < 0x80) return tag + byte(length) + content
  if (length < 0x100) return `${tag}81${byte(length)}${content}`
  return `${tag}82${byte(length >> 8)}${byte(length & 0xff)}${content}`
}

/** Ecdsa-Sig-Value (RFC 3279 §2.2.3) of r ‖ s. */
function signatureDer(rs: string): string {
  return der('30', integer(rs.slice(0, 64)) + integer(rs.slice(64)))
}

/** A positive INTEGER: shortest form, with a zero octet where the top bit is set (X.690 §8.3). */
function integer(hex: string): string {
  const trimmed = hex.replace(/^(00)+/, '')
  const negative = Number.parseInt(trimmed.slice(0, 2), 16) >= 0x80
  return der('02', negative ? `00${trimmed}` : trimmed)
}

function byte(value: number): string {
  return value.toString(16).padStart(2, '0')
}
