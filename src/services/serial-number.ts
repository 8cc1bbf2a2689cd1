/**
 * Serial numbers (RFC 5280 §4.1.2.2; docs/decisions/certificate-content.md). The Baseline
 * Requirements want at least 64 random bits.
 *
 * `random`: 17 octets, of which 135 bits are random. `database`: 71 random bits and a 63-bit number
 * that is unique in this database, in 17 octets. Both are positive, without a leading zero octet, and an index of
 * the certificates table enforces uniqueness.
 */

import { randomBytes } from 'node:crypto'

export type SerialNumberSource = () => Buffer | Promise<Buffer>

/** First octet 0x01 to 0x7f: DER would drop a leading zero and add an octet for a high bit. */
function positive(serial: Buffer): Buffer {
  serial[0] = (serial[0] as number) & 0x7f || 0x40
  return serial
}

export function randomSerialNumbers(): SerialNumberSource {
  return () => positive(randomBytes(17))
}

/** Numbers in a range from the database. The unused rest at exit is only a gap. */
const RANGE = 1024n

/** @param nextRange the next value of a database sequence. */
export function databaseSerialNumbers(nextRange: () => Promise<bigint>): SerialNumberSource {
  let next = 0n
  let end = 0n
  let refill: Promise<void> | undefined

  function take(): Buffer {
    const serial = Buffer.alloc(17)
    // Nine octets: the first one loses its highest bit, and 64 have to be left.
    randomBytes(9).copy(serial)
    serial.writeBigInt64BE(next++, 9)
    return positive(serial)
  }

  return async () => {
    while (next === end) {
      refill ??= nextRange()
        .then((range) => {
          next = range * RANGE
          end = next + RANGE
        })
        .finally(() => {
          refill = undefined
        })
      await refill
    }
    return take()
  }
}
