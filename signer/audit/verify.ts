/** Checks an audit chain from its first to its last line, for `chancery-signer audit verify`. */

import { NO_PREVIOUS, parseAuditLine, sha256Hex } from './line.ts'
import { auditLines } from './segments.ts'

export type AuditVerdict =
  | {
      ok: true
      lines: number
      signatures: number
      /** Crashes that left damaged bytes. */
      repairs: number
      /**
       * Sequence number of the first line found. It is above 1 when older segments are elsewhere.
       */
      first: number
      /** Hash of the newest line. An operator who noted it can later detect a shortened chain. */
      head: string
    }
  | { ok: false; file: string; line: number; reason: string }

/**
 * Detects any change inside the chain. Only an earlier `head` reveals a shortened end. A file in
 * use may end in an unfinished line, so check a copy.
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
      // Older lines may be elsewhere; only line 1 has a known predecessor.
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
