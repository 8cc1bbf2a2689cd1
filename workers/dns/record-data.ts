/**
 * Reads the data of DNS records. One strict reader per type uses all octets exactly, or returns
 * undefined.
 */

import { SocketAddress } from 'node:net'
import { type RawRecord, readName } from './wire.ts'

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

/**
 * Legal lengths follow RFC 1035 §2.3.4. Only printable ASCII, because names appear in logs and
 * URLs.
 */
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
