/** ECDSA signatures: from r ‖ s (JWS, PKCS #11) to DER (X.509, OpenSSL). */

const SEQUENCE = 0x30
const INTEGER = 0x02
/** A DER length of up to 127 octets is one octet. */
const SHORT = 0x80

/**
 * Ecdsa-Sig-Value (RFC 3279 §2.2.3) of r ‖ s.
 * @param raw r and s in equal halves (RFC 7518 §3.4), each up to 66 octets
 */
export function encodeEcdsaSignature(raw: Buffer): Buffer {
  const half = raw.length / 2
  const rStart = firstOctet(raw, 0, half)
  const sStart = firstOctet(raw, half, raw.length)
  const length = integerLength(raw, rStart, half) + integerLength(raw, sStart, raw.length)
  const der = Buffer.allocUnsafe(length + (length < SHORT ? 2 : 3))
  let at = 0
  der[at++] = SEQUENCE
  if (length >= SHORT) der[at++] = 0x81
  der[at++] = length
  at = writeInteger(der, at, raw, rStart, half)
  writeInteger(der, at, raw, sStart, raw.length)
  return der
}

/** Skips leading zeros; the value zero keeps one. */
function firstOctet(raw: Buffer, start: number, end: number): number {
  let at = start
  while (at < end - 1 && raw[at] === 0) at++
  return at
}

/** An INTEGER is signed: a first octet of 128 or more needs a zero in front. */
const needsZero = (raw: Buffer, start: number) => (raw[start] as number) >= 0x80

const integerLength = (raw: Buffer, start: number, end: number) => 2 + end - start + (needsZero(raw, start) ? 1 : 0)

function writeInteger(der: Buffer, from: number, raw: Buffer, start: number, end: number): number {
  let at = from
  der[at++] = INTEGER
  der[at++] = integerLength(raw, start, end) - 2
  if (needsZero(raw, start)) der[at++] = 0
  for (let i = start; i < end; i++) der[at++] = raw[i] as number
  return at
}
