/**
 * The index of a file of certificates: for each in order u48 sequence number, u32 Unix seconds, u8
 * length, and the octets of the serial number. `signedSerials` sends these bytes as they are.
 */

import { type LineTable, parseRecordLine } from './line-table.ts'
import type { CertificateLine } from './record.ts'

const HEAD_BYTES = 11
/** An index has about 6,500 certificates, the number in a file of 8 MiB. */
const FIRST_BYTES = 192 * 1024

export class SerialIndex {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  add(seq: number, seconds: number, serial: string): void {
    const octets = serial.length / 2
    if (this.#length + HEAD_BYTES + octets > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes, Buffer.allocUnsafe(this.#bytes.length)])
    this.#bytes.writeUIntBE(seq, this.#length, 6)
    this.#bytes.writeUInt32BE(seconds, this.#length + 6)
    this.#bytes[this.#length + 10] = octets
    this.#bytes.write(serial, this.#length + HEAD_BYTES, 'hex')
    this.#length += HEAD_BYTES + octets
  }

  /** A view; good until the next `add`. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}

/** For a file whose index was not written. */
export function indexOf(lines: LineTable): SerialIndex {
  const index = new SerialIndex()
  for (let at = 0; at < lines.count; at++) {
    const line = parseRecordLine<CertificateLine>(lines.textAt(at))
    if (line) index.add(line.seq, Math.floor(Date.parse(line.time) / 1000), line.serial)
  }
  return index
}

/**
 * Cuts a page of whole records after sequence number `after`.
 * @returns undefined when there is none
 */
export function pageOf(index: Buffer, after: number, maxBytes: number): { payload: Buffer; last: number } | undefined {
  let start = 0
  while (start < index.length && index.readUIntBE(start, 6) <= after) start += lengthAt(index, start)
  let end = start
  let last = 0
  while (end < index.length) {
    const length = lengthAt(index, end)
    if (end + length - start > maxBytes) break
    last = index.readUIntBE(end, 6)
    end += length
  }
  return last === 0 ? undefined : { payload: index.subarray(start, end), last }
}

const lengthAt = (index: Buffer, at: number): number => HEAD_BYTES + index[at + 10]!

/** Whether these bytes are a whole index whose sequence numbers go from `first` to `last`. */
export function isIndexOf(index: Buffer, { first, last }: { first: number; last: number }): boolean {
  let start = 0
  let newest = 0
  while (start + HEAD_BYTES < index.length) {
    const seq = index.readUIntBE(start, 6)
    if (seq <= newest || (start === 0 && seq !== first)) return false
    newest = seq
    start += lengthAt(index, start)
  }
  return start === index.length && newest === last
}
