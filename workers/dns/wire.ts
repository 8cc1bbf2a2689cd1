/**
 * The frame of a DNS message (RFC 1035 §4.1): its records, their names, and the limits of their data.
 *
 * The input is untrusted, so names, pointers and records have bounds (docs/decisions/dns-reader.md).
 */

import { SocketAddress } from 'node:net'

/** Record types that a caller can ask for, with the form of their data. */
export interface DnsData {
  A: string
  AAAA: string
  /** One entry per character-string of the record (RFC 1035 §3.3.14). */
  TXT: readonly Uint8Array[]
  /** RFC 8659 §4.1. The tag is in lower case. */
  CAA: { critical: boolean; tag: string; value: string }
  NS: string
  /** RFC 1035 §3.3.9. `exchange` is empty for the root, which is no mail server (RFC 7505 §3). */
  MX: { preference: number; exchange: string }
  /** Only its presence matters: it means that the child zone is signed (RFC 4035 §5.2). */
  DS: { keyTag: number }
}
export type DnsType = keyof DnsData

/** Legal lengths follow RFC 1035 §2.3.4. Only printable ASCII, because names appear in logs and URLs. */
export function isQueryableName(name: string): boolean {
  if (name.length === 0 || name.length > 253 || !/^[\x21-\x7e]+$/.test(name)) return false
  return name.split('.').every((label) => label.length >= 1 && label.length <= 63)
}

export function readData(message: Buffer, record: RawRecord, type: DnsType): DnsData[DnsType] | undefined {
  const data = message.subarray(record.start, record.end)
  switch (type) {
    case 'A':
      return data.length === 4 ? data.join('.') : undefined
    case 'AAAA':
      return data.length === 16 ? addressOf(data) : undefined
    case 'NS':
      return readTarget(message, record)
    case 'TXT':
      return readStrings(data)
    case 'CAA':
      return readProperty(data)
    case 'MX':
      return readMailServer(message, record)
    case 'DS':
      return data.length > 4 ? { keyTag: data.readUInt16BE(0) } : undefined
  }
}

/** Reads data that is one name (CNAME, NS). Undefined unless the name is queryable. */
export function readTarget(message: Buffer, { start, end }: RawRecord): string | undefined {
  const name = readName(message, start)
  return name?.end === end && isQueryableName(name.text) ? name.text : undefined
}

function readMailServer(message: Buffer, { start, end }: RawRecord): DnsData['MX'] | undefined {
  if (end - start < 3) return undefined
  const name = readName(message, start + 2)
  if (name?.end !== end || (name.text !== '' && !isQueryableName(name.text))) return undefined
  return { preference: message.readUInt16BE(start), exchange: name.text }
}

function addressOf(data: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => data.readUInt16BE(2 * i).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}

function readStrings(data: Buffer): Buffer[] | undefined {
  const strings: Buffer[] = []
  for (let at = 0; at < data.length; ) {
    const end = at + 1 + data[at]!
    if (end > data.length) return undefined
    strings.push(data.subarray(at + 1, end))
    at = end
  }
  return strings
}

/** RFC 8659 §4.1. The tag is not empty. */
function readProperty(data: Buffer): DnsData['CAA'] | undefined {
  if (data.length < 2) return undefined
  const valueStart = 2 + data[1]!
  if (valueStart === 2 || valueStart > data.length) return undefined
  // One character per octet, so that bytes outside ASCII match nothing.
  return {
    critical: (data[0]! & 0x80) !== 0,
    tag: data.toString('latin1', 2, valueStart).toLowerCase(),
    value: data.toString('latin1', valueStart),
  }
}

const HEADER_BYTES = 12
/** Type, class, TTL and length, between a record's name and its data. */
const RECORD_HEAD_BYTES = 10
/**
 * An honest answer has some tens of records, a zone of decoys some hundreds. 64 KiB can hold five thousand empty ones.
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

interface WireName {
  text: string
  /** Offset after the name's bytes at its own place. */
  end: number
}

/**
 * Reads the name at `start` (RFC 1035 §4.1.4), in lower case. A dot inside a label becomes NUL, so
 * that the name is not queryable.
 * @returns undefined for a name that never ends, or has too many pointers
 */
function readName(message: Buffer, start: number): WireName | undefined {
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
