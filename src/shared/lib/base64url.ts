/** base64url without padding (RFC 4648 §5, RFC 7515 §2), strict: one text for one value. */

const ALPHABET = /^[A-Za-z0-9_-]*$/

/** The low bits of the last character that carry no data must be zero, by length of the tail. */
const TAIL_2 = /[AQgw]$/
const TAIL_3 = /[AEIMQUYcgkosw048]$/

export function isBase64url(text: string): boolean {
  switch (text.length % 4) {
    case 0:
      return ALPHABET.test(text)
    case 2:
      return TAIL_2.test(text) && ALPHABET.test(text)
    case 3:
      return TAIL_3.test(text) && ALPHABET.test(text)
    default:
      return false
  }
}

/** Undefined for padding, foreign characters, an impossible length or a non-canonical tail. */
export function decodeBase64url(text: string): Buffer | undefined {
  return isBase64url(text) ? Buffer.from(text, 'base64url') : undefined
}

export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
