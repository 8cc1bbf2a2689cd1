/** Serial numbers as people write them, and as the database keeps them. */

/**
 * Hexadecimal in either case, with or without colons and leading zeros.
 * @returns lower-case hexadecimal without leading zero octets; undefined when it is none
 */
export function parseSerialNumber(text: string): string | undefined {
  const digits = text.replaceAll(':', '').toLowerCase().replace(/^0+/, '')
  const octets = digits.length % 2 === 0 ? digits : `0${digits}`
  return /^(?:[0-9a-f]{2}){1,20}$/.test(octets) ? octets : undefined
}

/**
 * Without the octet that keeps a DER INTEGER positive. Our own serial numbers have none; those of
 * other CAs may.
 */
export function withoutSignOctet(serialNumber: Buffer): Buffer {
  return serialNumber.length > 1 && serialNumber[0] === 0 ? serialNumber.subarray(1) : serialNumber
}
