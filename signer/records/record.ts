/**
 * The lines of the record files. They hold in full what the audit chain names: a certificate in DER, the revocations that
 * were noted or that a CRL added, or the decisions that a service reported.
 */

import type { LinePlace, NewRecord } from '../audit/chain.ts'
import { sha256Hex } from '../audit/line.ts'
import { MAX_NOTED } from '../protocol/methods.ts'
import { recordText } from './line-table.ts'

/** One certificate, one line. */
export interface CertificateLine {
  seq: number
  time: string
  /** Id in the configuration. */
  issuer: string
  /** Lower-case hex. */
  serial: string
  requester: string
  /** Base64 of the DER. */
  certificate: string
}

/** Serial number in lower-case hex, Unix seconds, CRLReason (RFC 5280 §5.3.1); 0 when there is none. */
export type RevocationEntry = readonly [serial: string, seconds: number, reason: number]

/** A part of what belongs to one line of the chain. */
export interface RevocationLine {
  seq: number
  /** From 0. */
  part: number
  time: string
  issuer: string
  /** Hex SHA-256 of the issuer's name and key identifier: ids may leave the configuration. */
  key: string
  /** The CRL that was signed; its number in lower-case hex, its URL empty for a complete list. */
  list?: { number: string; url: string }
  entries: readonly RevocationEntry[]
}

/** Decisions of administrators and clients, as the service describes them (src/domain/decision.ts). */
export interface DecisionLine {
  seq: number
  part: 0
  time: string
  requester: string
  decisions: readonly object[]
}

export const STREAMS = ['certificates', 'revocations', 'decisions'] as const
export type StreamName = (typeof STREAMS)[number]

export interface SignerRecord extends NewRecord {
  stream: StreamName
  seq: number
  /** The entry of a certificate in the index. */
  indexed: { seconds: number; serial: string } | undefined
  lines: readonly string[]
}

/** The record of a certificate at its place in the chain. */
export function certificateRecord(
  { seq, time }: LinePlace,
  { issuer, serial, requester }: Pick<CertificateLine, 'issuer' | 'serial' | 'requester'>,
  certificate: Buffer,
): SignerRecord {
  const line: CertificateLine = { seq, time, issuer, serial, requester, certificate: certificate.toString('base64') }
  const indexed = { seconds: Math.floor(Date.parse(time) / 1000), serial }
  return recordOf('certificates', seq, [recordText(line)], indexed)
}

/** The record of revocations; one line for each 500 entries, and one when there are none. */
export function revocationRecord(
  { seq, time }: LinePlace,
  { issuer, key, list }: Pick<RevocationLine, 'issuer' | 'key' | 'list'>,
  entries: readonly RevocationEntry[],
): SignerRecord {
  const lines: string[] = []
  do {
    const part = lines.length
    const some = entries.slice(part * MAX_NOTED, (part + 1) * MAX_NOTED)
    const line: RevocationLine = { seq, part, time, issuer, key, ...(list && { list }), entries: some }
    lines.push(recordText(line))
  } while (lines.length * MAX_NOTED < entries.length)
  return recordOf('revocations', seq, lines)
}

/** The record of decisions. */
export function decisionRecord(
  { seq, time }: LinePlace,
  requester: string,
  decisions: readonly object[],
): SignerRecord {
  const line: DecisionLine = { seq, part: 0, time, requester, decisions }
  return recordOf('decisions', seq, [recordText(line)])
}

function recordOf(
  stream: StreamName,
  seq: number,
  lines: readonly string[],
  indexed?: SignerRecord['indexed'],
): SignerRecord {
  const text = lines.join('')
  return { stream, seq, indexed, lines, sha256: sha256Hex(text), bytes: text.length }
}
