/**
 * Serial numbers (RFC 5280 §4.1.2.2; Baseline Requirements: at least 64 random bits; decisions 15).
 *
 * `random`: 17 octets, of which 135 bits are random. `database`: 64 random bits followed by a 63-bit number that no
 * other certificate of this database has. Both are positive, without a leading zero octet, and unique once more by the
 * index of the certificates table.
 */

import { randomOctets } from '../shared/lib/random.ts'

export type SerialNumberSource = () => Buffer | Promise<Buffer>

/** First octet 0x01 to 0x7f: a leading zero would be dropped by DER, a high bit would need one more octet. */
function positive(serial: Buffer): Buffer {
  serial[0] = (serial[0] as number) & 0x7f || 0x40
  return serial
}

export function randomSerialNumbers(): SerialNumberSource {
  return () => positive(randomOctets(17))
}

/** Numbers for which one range is asked of the database. A range that is not used up at exit leaves a gap, nothing more. */
const RANGE = 1024n

/** @param nextRange the next value of a database sequence. */
export function databaseSerialNumbers(nextRange: () => Promise<bigint>): SerialNumberSource {
  let next = 0n
  let end = 0n
  let refill: Promise<void> | undefined

  function take(): Buffer {
    const serial = Buffer.alloc(16)
    randomOctets(8).copy(serial)
    serial.writeBigInt64BE(next++, 8)
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
