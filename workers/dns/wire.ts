/**
 * The frame of a DNS message (RFC 1035 §4.1): its records, their names, and the limits of their
 * data.
 *
 * The input is untrusted, so names, pointers and records have bounds
 * (docs/decisions/dns-reader.md).
 */

const HEADER_BYTES = 12
/** Type, class, TTL and length, between a record's name and its data. */
const RECORD_HEAD_BYTES = 10
/**
 * An honest answer has some tens of records, a zone of decoys some hundreds. 64 KiB can hold five
 * thousand empty ones.
 */
const MAX_RECORDS = 1024
/** An honest name has one or two pointers. Each step costs as much as a label. */
const MAX_POINTERS = 16
/** RFC 1035 §2.3.4. */
const MAX_NAME_BYTES = 255

export interface RawRecord {
  /** Lower case, without a final dot; empty for the root. */
  owner: string
  type: number
  class: number
  /** Raw value. In an OPT record this field has another meaning. */
  ttl: number
  /** Start and end of the data, inside the message. */
  start: number
  end: number
}

export interface Frame {
  answers: RawRecord[]
  authorities: RawRecord[]
  additionals: RawRecord[]
}

/** Returns undefined for malformed messages. Ignores bytes after the last record. */
export function readFrame(message: Buffer): Frame | undefined {
  if (message.length < HEADER_BYTES) return undefined
  const [questions, ...sections] = [4, 6, 8, 10].map((at) => message.readUInt16BE(at)) as [number, ...number[]]
  if (sections.reduce((sum, count) => sum + count, questions) > MAX_RECORDS) return undefined

  let at = HEADER_BYTES
  for (let i = 0; i < questions; i++) {
    const name = readName(message, at)
    if (!name || name.end + 4 > message.length) return undefined
    at = name.end + 4
  }
  const read: RawRecord[][] = []
  for (const count of sections) {
    const records: RawRecord[] = []
    for (let i = 0; i < count; i++) {
      const record = readRecord(message, at)
      if (!record) return undefined
      records.push(record)
      at = record.end
    }
    read.push(records)
  }
  const [answers, authorities, additionals] = read as [RawRecord[], RawRecord[], RawRecord[]]
  return { answers, authorities, additionals }
}

function readRecord(message: Buffer, at: number): RawRecord | undefined {
  const name = readName(message, at)
  if (!name || name.end + RECORD_HEAD_BYTES > message.length) return undefined
  const start = name.end + RECORD_HEAD_BYTES
  const end = start + message.readUInt16BE(start - 2)
  if (end > message.length) return undefined
  return {
    owner: name.text,
    type: message.readUInt16BE(name.end),
    class: message.readUInt16BE(name.end + 2),
    ttl: message.readUInt32BE(name.end + 4),
    start,
    end,
  }
}

export interface WireName {
  text: string
  /** Offset after the name's bytes at its own place. */
  end: number
}

/**
 * Reads the name at `start` (RFC 1035 §4.1.4), in lower case. A dot inside a label becomes NUL, so
 * that the name is not queryable.
 * @returns undefined for a name that never ends, or has too many pointers
 */
export function readName(message: Buffer, start: number): WireName | undefined {
  const labels: string[] = []
  let end: number | undefined
  let at = start
  for (let pointers = 0, octets = 1; ; ) {
    const length = message[at]
    if (length === undefined) return undefined
    if (length === 0) return { text: labels.join('.').toLowerCase(), end: end ?? at + 1 }
    if (length < 0x40) {
      octets += length + 1
      if (octets > MAX_NAME_BYTES || at + length >= message.length) return undefined
      labels.push(message.toString('latin1', at + 1, at + 1 + length).replaceAll('.', '\0'))
      at += length + 1
      continue
    }
    const low = message[at + 1]
    if (length < 0xc0 || low === undefined || ++pointers > MAX_POINTERS) return undefined
    const target = ((length & 0x3f) << 8) | low
    // Only backwards, so that pointers cannot form a loop.
    if (target >= at) return undefined
    end ??= at + 2
    at = target
  }
}
