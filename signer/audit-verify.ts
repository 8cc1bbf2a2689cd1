/** Checks an audit chain from its first line to its last, as `chancery-signer audit verify` does. */

import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { NO_PREVIOUS, parseAuditLine, sha256Hex } from './audit-chain.ts'

export type AuditVerdict =
  | {
      ok: true
      lines: number
      signatures: number
      /** Crashes after which bytes were kept aside. */
      repairs: number
      /** Hash of the newest line. Noted elsewhere, it lets a later check notice that lines were cut off the end. */
      head: string
    }
  | { ok: false; line: number; reason: string }

/**
 * Reads the file as a stream. The chain shows any change inside it; that its end was cut off shows only against a
 * `head` noted earlier. A file being written to may end in an unfinished line: check a copy, or accept the verdict.
 */
export async function verifyAuditChain(file: string): Promise<AuditVerdict> {
  const counts = { lines: 0, signatures: 0, repairs: 0 }
  let head = NO_PREVIOUS
  const lines = createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY })
  for await (const text of lines) {
    counts.lines += 1
    const line = parseAuditLine(text)
    if (!line) return { ok: false, line: counts.lines, reason: 'not a line of an audit chain' }
    if (line.seq !== counts.lines) return { ok: false, line: counts.lines, reason: `sequence number is ${line.seq}` }
    if (line.previous !== head) return { ok: false, line: counts.lines, reason: 'hash of the line before differs' }
    counts[line.method === 'auditRepair' ? 'repairs' : 'signatures'] += 1
    head = sha256Hex(text)
  }
  return { ok: true, ...counts, head }
}
