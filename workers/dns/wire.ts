/**
 * The frame of a DNS message (RFC 1035 §4.1): where each answer's data begins and ends, and that the message is one that a
 * decoder can be let loose on.
 *
 * The decoder of `message.ts` trusts the bytes in two ways that a hostile server could use. It reads the parts of a record
 * past the record's own end, and it follows a chain of compression pointers for every name, thousands of steps for each of
 * thousands of records. Both are found here first, in one pass.
 */

const HEADER_BYTES = 12
/** Type, class and time to live, which stand between a record's name and its length. */
const RECORD_HEAD_BYTES = 8
/** An honest answer has some tens, a zone of decoys some hundreds; 64 KiB hold five thousand empty ones. */
const MAX_RECORDS = 1024
/** An honest name has one pointer, now and then two; every step costs as much as a label. */
const MAX_POINTERS = 16
/** RFC 1035 §2.3.4. */
const MAX_NAME_BYTES = 255

export interface Frame {
  /** Raw data of each record of the answer section, in its order. */
  answerData: Buffer[]
  /** Where the last record ends; a decoder that gets elsewhere has read a record beyond its borders. */
  end: number
}

/** Undefined for bytes that do not add up to a message. */
export function readFrame(message: Buffer): Frame | undefined {
  if (message.length < HEADER_BYTES) return undefined
  const [questions, answers, authorities, additionals] = [4, 6, 8, 10].map((at) => message.readUInt16BE(at)) as Counts
  if (questions + answers + authorities + additionals > MAX_RECORDS) return undefined

  let at = HEADER_BYTES
  for (let i = 0; i < questions; i++) {
    const nameEnd = afterName(message, at)
    if (nameEnd === undefined || nameEnd + 4 > message.length) return undefined
    at = nameEnd + 4
  }
  const answerData: Buffer[] = []
  for (let i = 0; i < answers + authorities + additionals; i++) {
    const nameEnd = afterName(message, at)
    if (nameEnd === undefined || nameEnd + RECORD_HEAD_BYTES + 2 > message.length) return undefined
    const start = nameEnd + RECORD_HEAD_BYTES + 2
    at = start + message.readUInt16BE(start - 2)
    if (at > message.length) return undefined
    if (i < answers) answerData.push(message.subarray(start, at))
  }
  return { answerData, end: at }
}
type Counts = [number, number, number, number]

/** Where the name at `start` ends in place; undefined when it has no end, or one that takes too many pointers to reach. */
function afterName(message: Buffer, start: number): number | undefined {
  let end: number | undefined
  let at = start
  for (let pointers = 0, octets = 1; ; ) {
    const length = message[at]
    if (length === undefined) return undefined
    if (length === 0) return end ?? at + 1
    if (length < 0x40) {
      at += length + 1
      octets += length + 1
      if (octets > MAX_NAME_BYTES) return undefined
      continue
    }
    const low = message[at + 1]
    if (length < 0xc0 || low === undefined || ++pointers > MAX_POINTERS) return undefined
    end ??= at + 2
    at = ((length & 0x3f) << 8) | low
  }
}

/** RFC 8659 §4.1. Undefined for data whose tag is empty or longer than the data. The tag is in lower case. */
export function parseCaaData(data: Buffer): { critical: boolean; tag: string; value: string } | undefined {
  if (data.length < 2) return undefined
  const valueStart = 2 + data[1]!
  if (valueStart === 2 || valueStart > data.length) return undefined
  // One character an octet: what is not ASCII stays apart from what is, and matches nothing.
  return {
    critical: (data[0]! & 0x80) !== 0,
    tag: data.toString('latin1', 2, valueStart).toLowerCase(),
    value: data.toString('latin1', valueStart),
  }
}
