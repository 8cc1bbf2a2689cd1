/** Entries of a CRL that no record holds yet, 25 bytes each, until the list is signed. */

import type { RevocationEntry } from './record.ts'

/** Whether a record holds this serial number with this reason. */
export type IsRecorded = (serial: Buffer, reason: number) => boolean

const HEAD_BYTES = 8
const CHUNK_BYTES = 64 * 1024

/** In chunks, each entry as u8 length, u8 reason, u48 Unix seconds and the serial number. */
export class NewEntries {
  readonly #full: Buffer[] = []
  #chunk = Buffer.alloc(0)
  #length = 0
  #count = 0

  get count(): number {
    return this.#count
  }

  /** @param serial is copied */
  add(serial: Buffer, seconds: number, reason: number): void {
    if (this.#length + HEAD_BYTES + serial.length > this.#chunk.length) {
      this.#full.push(this.#chunk.subarray(0, this.#length))
      this.#chunk = Buffer.allocUnsafe(CHUNK_BYTES)
      this.#length = 0
    }
    this.#chunk[this.#length] = serial.length
    this.#chunk[this.#length + 1] = reason
    this.#chunk.writeUIntBE(seconds, this.#length + 2, 6)
    this.#chunk.set(serial, this.#length + HEAD_BYTES)
    this.#length += HEAD_BYTES + serial.length
    this.#count += 1
  }

  /** The entries in order, at most `most` at a time; one empty list when there are none. */
  *inGroups(most: number): Generator<RevocationEntry[], void> {
    let group: RevocationEntry[] = []
    for (const chunk of [...this.#full, this.#chunk.subarray(0, this.#length)])
      for (let at = 0; at < chunk.length; ) {
        if (group.length === most) {
          yield group
          group = []
        }
        const end = at + HEAD_BYTES + chunk[at]!
        group.push([chunk.toString('hex', at + HEAD_BYTES, end), chunk.readUIntBE(at + 2, 6), chunk[at + 1]!])
        at = end
      }
    yield group
  }
}
