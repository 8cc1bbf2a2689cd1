/** certIDs and RenewalInfo objects (RFC 9773 §4). */

import { decodeBase64url } from '../lib/base64url.ts'
import { renderTimestamp } from './timestamp.ts'

/** What a certID names: content octets of the authorityKeyIdentifier's keyIdentifier and of the serial number. */
export interface CertificateIdentity {
  keyIdentifier: Buffer
  serialNumber: Buffer
}

/** RFC 5280 §4.1.2.2; a sign octet may come on top. */
const MAX_SERIAL_OCTETS = 21
/** A SHA-512 digest; identifiers in use have 20 octets. It bounds what an unauthenticated request makes us decode. */
const MAX_KEY_IDENTIFIER_OCTETS = 64
const MAX_LENGTH = 128

/**
 * Strict: one text for one certificate. No padding, no second dot, and the serial number as DER writes it: positive and
 * without a leading zero that carries no sign.
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

/** Content octets of a DER INTEGER above zero (X.690 §8.3.2). */
function isPositiveInteger(octets: Buffer): boolean {
  const [first, second] = octets
  if (first === undefined || octets.length > MAX_SERIAL_OCTETS || first >= 0x80) return false
  return first !== 0 || (second !== undefined && second >= 0x80)
}

export interface RenewalInfo {
  window: { start: Date; end: Date }
  /** When to ask again, in the body and, as RFC 9773 §4.3 has it, in the Retry-After header. */
  retryAfterSeconds: number
  /** What the operator has to say about a window that is not the usual one. */
  explanationUrl: string | undefined
}

export function renderRenewalInfo({ window, retryAfterSeconds, explanationUrl }: RenewalInfo): object {
  return {
    suggestedWindow: { start: renderTimestamp(window.start), end: renderTimestamp(window.end) },
    ...(explanationUrl !== undefined && { explanationURL: explanationUrl }),
    retryAfter: retryAfterSeconds,
  }
}
