/**
 * DNS messages as bytes (RFC 1035 §4, EDNS of RFC 6891): builds queries, and reads any response without throwing.
 *
 * `wire.ts` parses answers (docs/decisions/dns-reader.md). Returned names are checked: printable
 * ASCII of legal length.
 */

import { randomInt } from 'node:crypto'
import { type DnsData, type DnsType, type Frame, type RawRecord, readData, readFrame, readTarget } from './wire.ts'

export { type DnsData, type DnsType, isQueryableName } from './wire.ts'

export interface DnsRecord<T extends DnsType = DnsType> {
  ttlSeconds: number
  data: DnsData[T]
}

export interface DnsQuery {
  /** Wire form. */
  bytes: Buffer
  /** The question section inside `bytes`. A response repeats it exactly, including the random case (0x20). */
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
  /** A referral: no answer, but name servers closer to the name (RFC 2308 §2.2). This server does not know. */
  isReferral: boolean
  /** The authority section has an SOA: "no such data" is definite (RFC 2308 §2.2). */
  hasSoa: boolean
  /** Answer records of the requested type or CNAME, in order; owner in lower case. */
  answers: readonly ({ owner: string; cname: string; ttlSeconds: number } | { owner: string; record: DnsRecord })[]
}

/** Numbers of the supported types (IANA's registry of RR types). */
const TYPES = { A: 1, NS: 2, CNAME: 5, SOA: 6, MX: 15, TXT: 16, AAAA: 28, OPT: 41, DS: 43, CAA: 257 } satisfies Record<
  DnsType | 'CNAME' | 'SOA' | 'OPT',
  number
>
const CLASS_IN = 1

/** Limit over UDP: 1232 octets fit every path without fragments, which could be forged. */
const UDP_PAYLOAD_SIZE = 1232
const HEADER_BYTES = 12

/** Bits of the header's second word (RFC 1035 §4.1.1, RFC 4035 §3.2.3) and of an OPT record's flags (RFC 3225 §3). */
const RECURSION_DESIRED = 0x0100
const AUTHENTIC_DATA = 0x0020
const DNSSEC_OK = 0x8000

interface QueryOptions {
  edns: boolean
  dnssec: boolean
  recursion: boolean
  lowerCase?: boolean
}

/**
 * Builds a query with a random id. Unless `lowerCase` is set, random letter case gives an off-path
 * forger more to guess (0x20).
 * @param name a queryable name in lower case
 */
export function buildQuery(
  name: string,
  type: DnsType,
  { edns, dnssec, recursion, lowerCase }: QueryOptions,
): DnsQuery {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt16BE(randomInt(0x10000), 0)
  header.writeUInt16BE((recursion ? RECURSION_DESIRED : 0) | (dnssec ? AUTHENTIC_DATA : 0), 2)
  header.writeUInt16BE(1, 4) // questions
  header.writeUInt16BE(edns ? 1 : 0, 10) // additional records
  const question = encodeQuestion(lowerCase ? name : randomCase(name), type)
  const bytes = Buffer.concat([header, question, ...(edns ? [encodeOpt(dnssec)] : [])])
  return { bytes, question: bytes.subarray(HEADER_BYTES, HEADER_BYTES + question.length), type }
}

/** Labels with their length octets, the root label, type and class (RFC 1035 §4.1.2). */
function encodeQuestion(name: string, type: DnsType): Buffer {
  const question = Buffer.alloc(name.length + 2 + 4)
  let at = 0
  for (const label of name.split('.')) {
    question[at] = label.length
    at += 1 + question.write(label, at + 1, 'latin1')
  }
  question.writeUInt16BE(TYPES[type], at + 1)
  question.writeUInt16BE(CLASS_IN, at + 3)
  return question
}

/** RFC 6891 §6.1.2: the class field has the payload size, the lower half of the TTL the flags. */
function encodeOpt(dnssec: boolean): Buffer {
  const record = Buffer.alloc(11)
  record.writeUInt16BE(TYPES.OPT, 1)
  record.writeUInt16BE(UDP_PAYLOAD_SIZE, 3)
  record.writeUInt16BE(dnssec ? DNSSEC_OK : 0, 7)
  return record
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
 * Compares a message with a query.
 *
 * - `exact`: a response with our id and exact question
 * - `recased`: a response whose name differs only in case
 * - `unasked`: a response with our id and no question, as old servers answer EDNS
 * - `foreign`: all else
 */
export function matchQuestion(message: Buffer, query: DnsQuery): 'exact' | 'recased' | 'unasked' | 'foreign' {
  if (message.length < HEADER_BYTES) return 'foreign'
  // QR is set, and the opcode says query.
  const isResponse = (message[2]! & 0xf8) === 0x80
  if (!isResponse || message.readUInt16BE(0) !== query.bytes.readUInt16BE(0)) return 'foreign'
  const questions = message.readUInt16BE(4)
  if (questions === 0) return 'unasked'
  const end = HEADER_BYTES + query.question.length
  if (questions !== 1 || message.length < end) return 'foreign'

  const question = message.subarray(HEADER_BYTES, end)
  if (question.equals(query.question)) return 'exact'
  return lowerCase(question) === lowerCase(query.question) ? 'recased' : 'foreign'
}

const lowerCase = (bytes: Buffer) => bytes.toString('latin1').toLowerCase()

/** Returns undefined for malformed messages, and for malformed records of the requested type. */
export function parseResponse(message: Buffer, query: DnsQuery): DnsResponse | undefined {
  const frame = readFrame(message)
  if (!frame) return undefined

  const answers: DnsResponse['answers'][number][] = []
  for (const record of frame.answers) {
    if (record.class !== CLASS_IN) continue
    if (record.type !== TYPES.CNAME && record.type !== TYPES[query.type]) continue
    const read = readAnswer(message, record, query.type)
    if (!read) return undefined
    answers.push(read)
  }
  const has = (type: number) => frame.authorities.some((record) => record.type === type)
  const authoritative = (message[2]! & 0x04) !== 0
  return {
    rcode: responseCode(message, frame),
    truncated: (message[2]! & 0x02) !== 0,
    authenticated: (message[3]! & 0x20) !== 0,
    authoritative,
    isReferral: !authoritative && frame.answers.length === 0 && has(TYPES.NS) && !has(TYPES.SOA),
    hasSoa: has(TYPES.SOA),
    answers,
  }
}

function readAnswer(message: Buffer, record: RawRecord, type: DnsType): DnsResponse['answers'][number] | undefined {
  const { owner } = record
  const ttlSeconds = ttlOf(record.ttl)
  if (record.type === TYPES.CNAME) {
    const cname = readTarget(message, record)
    return cname === undefined ? undefined : { owner, cname, ttlSeconds }
  }
  const data = readData(message, record, type)
  return data === undefined ? undefined : { owner, record: { ttlSeconds, data } }
}

/** A value with the top bit set counts as zero (RFC 2181 §8). */
const ttlOf = (ttl: number) => (ttl < 2 ** 31 ? ttl : 0)

const RCODES = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED']

/**
 * Adds the upper bits, which an OPT record has in its TTL field (RFC 6891 §6.1.3). Codes without a
 * name become `RCODE<n>`.
 */
function responseCode(message: Buffer, { additionals }: Frame): string {
  const opt = additionals.find(({ type }) => type === TYPES.OPT)
  const code = (opt ? opt.ttl >>> 24 : 0) * 16 + (message[3]! & 0x0f)
  return RCODES[code] ?? `RCODE${code}`
}
