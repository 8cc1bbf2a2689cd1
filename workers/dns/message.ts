/**
 * DNS messages as bytes (RFC 1035 §4, EDNS of RFC 6891): the queries we send and a total reader of what comes back.
 *
 * The only file that knows dns-packet. Its decoder throws on broken input and checks little of what it decodes, so
 * everything that leaves this file has been checked again: names are printable ASCII of legal length, addresses parse.
 */

import { randomInt } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import dnsPacket from 'dns-packet'
import { parseCaaData, readFrame } from './wire.ts'

/** Record types a caller can ask for, and what their data looks like here. */
export interface DnsData {
  A: string
  AAAA: string
  /** One entry per character-string of the record (RFC 1035 §3.3.14). */
  TXT: readonly Uint8Array[]
  /** RFC 8659 §4.1.1. The tag is in lower case. */
  CAA: { critical: boolean; tag: string; value: string }
  NS: string
  /** That there is one is all anybody asks: the zone below is signed (RFC 4035 §5.2). */
  DS: { keyTag: number }
}
export type DnsType = keyof DnsData

export interface DnsRecord<T extends DnsType = DnsType> {
  ttlSeconds: number
  data: DnsData[T]
}

export interface DnsQuery {
  /** Wire form. */
  bytes: Buffer
  /** The question section inside `bytes`; a response repeats it to the letter, 0x20 case included. */
  question: Buffer
  type: DnsType
}

export interface DnsResponse {
  rcode: string
  truncated: boolean
  /** The resolver says it validated the answer (RFC 4035 §3.2.3). */
  authenticated: boolean
  /** The server answers for its own zone (AA). */
  authoritative: boolean
  /** No answer, but name servers closer to the name (RFC 2308 §2.2): this server does not know. */
  isReferral: boolean
  /** An SOA stands in the authority section: "no such data" is definite (RFC 2308 §2.2). */
  hasSoa: boolean
  /** Records of the answer section in its order, of the type asked for or CNAME; owner in lower case. */
  answers: readonly ({ owner: string; cname: string; ttlSeconds: number } | { owner: string; record: DnsRecord })[]
}

/** Over UDP: 1232 octets fit every path without fragments, which could be forged. */
const UDP_PAYLOAD_SIZE = 1232
const HEADER_BYTES = 12

/** RFC 1035 §2.3.4 for legal lengths; printable ASCII without blanks, because a name is also text in logs and URLs. */
export function isQueryableName(name: string): boolean {
  if (name.length === 0 || name.length > 253 || !/^[\x21-\x7e]+$/.test(name)) return false
  return name.split('.').every((label) => label.length >= 1 && label.length <= 63)
}

/**
 * A query with random id and randomly cased letters (0x20: an off-path forger has to guess those as well).
 * `name` is a queryable name.
 */
export function buildQuery(
  name: string,
  type: DnsType,
  options: { edns: boolean; dnssec: boolean; recursion: boolean },
): DnsQuery {
  const bytes = dnsPacket.encode({
    type: 'query',
    id: randomInt(0x10000),
    flags: (options.recursion ? dnsPacket.RECURSION_DESIRED : 0) | (options.dnssec ? dnsPacket.AUTHENTIC_DATA : 0),
    questions: [{ type, name: randomCase(name), class: 'IN' }],
    additionals: options.edns ? [optRecord(options.dnssec)] : [],
  })
  // Labels with their length octets, the root label, type and class.
  const questionBytes = name.length + 2 + 4
  return { bytes, question: bytes.subarray(HEADER_BYTES, HEADER_BYTES + questionBytes), type }
}

function optRecord(dnssec: boolean): dnsPacket.OptAnswer {
  return {
    type: 'OPT',
    name: '.',
    udpPayloadSize: UDP_PAYLOAD_SIZE,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: dnssec ? dnsPacket.DNSSEC_OK : 0,
    flag_do: dnssec,
    options: [],
  }
}

function randomCase(name: string): string {
  let bits = 0
  let left = 0
  return name.replace(/[a-z]/gi, (letter) => {
    if (left-- === 0) {
      bits = randomInt(2 ** 32)
      left = 31
    }
    const upper = (bits & 1) === 1
    bits >>>= 1
    return upper ? letter.toUpperCase() : letter.toLowerCase()
  })
}

/**
 * How a message relates to a query: `exact` when it is a response with our id and our question byte for byte,
 * `recased` when only the case of the name differs, otherwise `foreign`.
 */
export function matchQuestion(message: Buffer, query: DnsQuery): 'exact' | 'recased' | 'foreign' {
  const end = HEADER_BYTES + query.question.length
  if (message.length < end) return 'foreign'
  // QR set, and the opcode of a query.
  const isResponse = (message[2]! & 0xf8) === 0x80
  const isOneQuestion = message.readUInt16BE(4) === 1
  if (!isResponse || !isOneQuestion || message.readUInt16BE(0) !== query.bytes.readUInt16BE(0)) return 'foreign'

  const question = message.subarray(HEADER_BYTES, end)
  if (question.equals(query.question)) return 'exact'
  return lowerCase(question) === lowerCase(query.question) ? 'recased' : 'foreign'
}

const lowerCase = (bytes: Buffer) => bytes.toString('latin1').toLowerCase()

/** Undefined for bytes that are not a well-formed message, or that carry a malformed record of the type asked for. */
export function parseResponse(message: Buffer, query: DnsQuery): DnsResponse | undefined {
  const decoded = decode(message)
  if (!decoded) return undefined
  const { packet, answerData } = decoded

  const answers: DnsResponse['answers'][number][] = []
  for (const [index, answer] of (packet.answers ?? []).entries()) {
    if (answer.type !== 'CNAME' && answer.type !== query.type) continue
    if (answer.class !== 'IN') continue
    const read = readAnswer(answer, answerData[index] as Buffer)
    if (!read) return undefined
    answers.push(read)
  }
  const has = (type: string) => (packet.authorities ?? []).some((record) => record.type === type)
  return {
    rcode: responseCode(packet),
    truncated: packet.flag_tc,
    authenticated: packet.flag_ad,
    authoritative: packet.flag_aa,
    isReferral: !packet.flag_aa && (packet.answers ?? []).length === 0 && has('NS') && !has('SOA'),
    hasSoa: has('SOA'),
    answers,
  }
}

function decode(message: Buffer): { packet: dnsPacket.DecodedPacket; answerData: Buffer[] } | undefined {
  const frame = readFrame(message)
  if (!frame) return undefined
  try {
    const packet = dnsPacket.decode(message)
    return dnsPacket.decode.bytes === frame.end ? { packet, answerData: frame.answerData } : undefined
  } catch {
    // Whatever the decoder stumbled over, the bytes are not a message; the caller asks elsewhere.
    return undefined
  }
}

function readAnswer(answer: dnsPacket.Answer, raw: Buffer): DnsResponse['answers'][number] | undefined {
  const owner = answer.name.toLowerCase()
  const ttlSeconds = 'ttl' in answer ? ttlOf(answer.ttl) : 0
  if (answer.type === 'CNAME') {
    const cname = answer.data.toLowerCase()
    return isQueryableName(cname) ? { owner, cname, ttlSeconds } : undefined
  }
  const data = readData(answer, raw)
  return data === undefined ? undefined : { owner, record: { ttlSeconds, data } }
}

/** A value with the top bit set counts as zero (RFC 2181 §8). */
const ttlOf = (ttl = 0) => (ttl < 2 ** 31 ? ttl : 0)

function readData(answer: dnsPacket.Answer, raw: Buffer): DnsData[DnsType] | undefined {
  switch (answer.type) {
    case 'A':
      return isIPv4(answer.data) ? answer.data : undefined
    case 'AAAA':
      return isIPv6(answer.data) ? answer.data : undefined
    case 'NS':
      return isQueryableName(answer.data) ? answer.data.toLowerCase() : undefined
    case 'TXT':
      return [answer.data].flat().map((part) => Buffer.from(part as Buffer))
    case 'CAA':
      return parseCaaData(raw)
    case 'DS':
      return { keyTag: answer.data.keyTag }
    default:
      return undefined
  }
}

const RCODES = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED']

/** With the upper bits that an OPT record adds (RFC 6891 §6.1.3); codes without a name are `RCODE<n>`. */
function responseCode(packet: dnsPacket.DecodedPacket): string {
  const opt = (packet.additionals ?? []).find((record) => record.type === 'OPT')
  const upperBits = opt?.type === 'OPT' ? opt.extendedRcode : 0
  const code = upperBits * 16 + (packet.flags! & 15)
  return RCODES[code] ?? `RCODE${code}`
}
