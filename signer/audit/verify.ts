/**
 * Checks an audit chain from its first line to its last, as `chancery-signer audit verify` does.
 */

import { NO_PREVIOUS, parseAuditLine, sha256Hex } from './line.ts'
import { auditLines } from './segments.ts'

export type AuditVerdict =
  | {
      ok: true
      lines: number
      signatures: number
      /** Crashes after which bytes were kept aside. */
      repairs: number
      /**
       * Sequence number of the first line that is here; above 1 when older
       * segments were moved elsewhere.
       */
      first: number
      /**
       * Hash of the newest line. Noted elsewhere, it lets a later check notice
       * that lines were cut off the end.
       */
      head: string
    }
  | { ok: false; file: string; line: number; reason: string }

/**
 * Reads the file and the closed segments beside it as one stream. The chain shows any change
 * inside it; that its end was cut off shows only against a `head` noted earlier, and what the
 * first line follows only where that line is. A file being written to may end in an unfinished
 * line: check a copy, or accept the verdict.
 */
export async function verifyAuditChain(file: string): Promise<AuditVerdict> {
  const counts = { lines: 0, signatures: 0, repairs: 0 }
  let first: number | undefined
  let head = NO_PREVIOUS
  for await (const { text, file: segment, number } of auditLines(file)) {
    const wrong = (reason: string): AuditVerdict => ({ ok: false, file: segment, line: number, reason })
    const line = parseAuditLine(text)
    if (!line) return wrong('not a line of an audit chain')
    if (first === undefined) {
      first = line.seq
      // The oldest lines may have been moved away; the beginning itself can be told.
      if (line.seq > 1) head = line.previous
    }
    if (line.seq !== first + counts.lines) return wrong(`sequence number is ${line.seq}, not ${first + counts.lines}`)
    if (line.previous !== head) return wrong('hash of the line before differs')
    counts.lines += 1
    counts[line.method === 'auditRepair' ? 'repairs' : 'signatures'] += 1
    head = sha256Hex(text)
  }
  return { ok: true, ...counts, first: first ?? 1, head }
}
