/** certIDs and RenewalInfo objects (RFC 9773 §4). */

import { decodeBase64url, encodeBase64url } from '../lib/encoding.ts'
import { renderTimestamp } from './timestamp.ts'

/** The content of a certID: octets of the keyIdentifier in authorityKeyIdentifier, and of the serial number. */
export interface CertificateIdentity {
  keyIdentifier: Buffer
  serialNumber: Buffer
}

/** RFC 5280 §4.1.2.2: 20 octets, and one for the sign. */
const MAX_SERIAL_OCTETS = 21
/** The size of a SHA-512 digest; common identifiers have 20 octets. Bounds decoding for unauthenticated requests. */
const MAX_KEY_IDENTIFIER_OCTETS = 64
const MAX_LENGTH = 128

/**
 * Strict: each certificate has one text, without padding or a second dot.
 * The serial number is DER's: positive, with a leading zero only for the sign.
 */
export function parseCertId(text: string): CertificateIdentity | undefined {
  if (text.length > MAX_LENGTH) return undefined
  const parts = text.split('.')
  if (parts.length !== 2) return undefined
  const [keyIdentifier, serialNumber] = parts.map(decodeBase64url)
  if (!keyIdentifier || keyIdentifier.length === 0 || keyIdentifier.length > MAX_KEY_IDENTIFIER_OCTETS) return undefined
  if (!serialNumber || !isPositiveInteger(serialNumber)) return undefined
  return { keyIdentifier, serialNumber }
}

/** RFC 9773 §4.1. */
export function renderCertId({ keyIdentifier, serialNumber }: CertificateIdentity): string {
  return `${encodeBase64url(keyIdentifier)}.${encodeBase64url(serialNumber)}`
}

/** Content octets of a DER INTEGER above zero (X.690 §8.3.2). */
function isPositiveInteger(octets: Buffer): boolean {
  const [first, second] = octets
  if (first === undefined || octets.length > MAX_SERIAL_OCTETS || first >= 0x80) return false
  return first !== 0 || (second !== undefined && second >= 0x80)
}

export interface RenewalInfo {
  window: { start: Date; end: Date }
  /** Not in the body of RFC 9773. */
  secondsUntilWindow: number
  /** For the Retry-After header (RFC 9773 §4.3). */
  retryAfterSeconds: number
  /** The operator's page about an unusual window. */
  explanationUrl: string | undefined
}

export function renderRenewalInfo({
  window,
  secondsUntilWindow,
  explanationUrl,
}: Omit<RenewalInfo, 'retryAfterSeconds'>): object {
  return {
    suggestedWindow: { start: renderTimestamp(window.start), end: renderTimestamp(window.end) },
    ...(explanationUrl !== undefined && { explanationURL: explanationUrl }),
    retryAfter: secondsUntilWindow,
  }
}
