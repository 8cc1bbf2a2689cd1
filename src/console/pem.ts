/** PEM (RFC 7468). */

/** The first certificate of a file. */
export function derOf(pem: string): Uint8Array<ArrayBuffer> {
  const [, base64 = ''] = /-----BEGIN [^-]+-----([^-]+)-----END/.exec(pem) ?? []
  return Uint8Array.from(atob(base64.replaceAll(/\s/g, '')), (character) => character.charCodeAt(0))
}
