/** Serial numbers as people write them. */

/**
 * Hexadecimal in either case, with or without colons and leading zeros.
 * @returns lower-case hexadecimal without leading zero octets; undefined when it is none
 */
export function parseSerialNumber(text: string): string | undefined {
  const digits = text.replaceAll(':', '').toLowerCase().replace(/^0+/, '')
  const octets = digits.length % 2 === 0 ? digits : `0${digits}`
  return /^(?:[0-9a-f]{2}){1,20}$/.test(octets) ? octets : undefined
}
