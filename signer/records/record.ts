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

/** Makes the record of a certificate for its place in the chain. */
export const certificateRecord =
  (facts: Pick<CertificateLine, 'issuer' | 'serial' | 'requester'>, certificate: Buffer) =>
  ({ seq, time }: LinePlace): SignerRecord => {
    const { issuer, serial, requester } = facts
    const line: CertificateLine = { seq, time, issuer, serial, requester, certificate: certificate.toString('base64') }
    const text = recordText(line)
    const indexed = { seconds: Math.floor(Date.parse(time) / 1000), serial }
    return { stream: 'certificates', seq, indexed, lines: [text], sha256: sha256Hex(text), bytes: text.length }
  }

/** Makes the record of revocations; one line for each 500 entries, and one when there are none. */
export const revocationRecord =
  (facts: Pick<RevocationLine, 'issuer' | 'key' | 'list'>, entries: readonly RevocationEntry[]) =>
  ({ seq, time }: LinePlace): SignerRecord => {
    const lines: string[] = []
    do {
      const part = lines.length
      const some = entries.slice(part * MAX_NOTED, (part + 1) * MAX_NOTED)
      const { issuer, key, list } = facts
      const line: RevocationLine = { seq, part, time, issuer, key, ...(list && { list }), entries: some }
      lines.push(recordText(line))
    } while (lines.length * MAX_NOTED < entries.length)
    const text = lines.join('')
    return {
      stream: 'revocations',
      seq,
      indexed: undefined,
      lines,
      sha256: sha256Hex(text),
      bytes: text.length,
    }
  }

/** Makes the record of decisions. */
export const decisionRecord =
  (requester: string, decisions: readonly object[]) =>
  ({ seq, time }: LinePlace): SignerRecord => {
    const line: DecisionLine = { seq, part: 0, time, requester, decisions }
    const text = recordText(line)
    return { stream: 'decisions', seq, indexed: undefined, lines: [text], sha256: sha256Hex(text), bytes: text.length }
  }
