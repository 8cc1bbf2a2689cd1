/** Selects and prints audit lines for `chancery-signer audit tail` and `audit export`. */

import { existsSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { storedCertificates } from '../records/stored-records.ts'
import { type AuditLine, auditLines, closedSegments, parseAuditLine } from './line.ts'

export interface AuditSelection {
  /** Both inclusive. */
  since: Date | undefined
  until: Date | undefined
  issuer: string | undefined
  /** Lower-case hex, as in the lines. */
  serial: string | undefined
}

const FIELDS = ['seq', 'time', 'method', 'issuer', 'serial', 'names', 'sha256', 'requester'] as const

/** @throws Error with file and number of a line that is not an audit line */
async function* selectedLines(
  file: string,
  selection: AuditSelection,
): AsyncGenerator<{ text: string; line: AuditLine }> {
  const { since, until, issuer, serial } = selection
  for await (const { text, file: segment, number } of auditLines(file)) {
    const line = parseAuditLine(text)
    if (!line) throw new Error(`${segment}: line ${number} is not a line of an audit chain`)
    const time = new Date(line.time)
    if ((since && time < since) || (until && time > until)) continue
    if ((issuer !== undefined && line.issuer !== issuer) || (serial !== undefined && line.serial !== serial)) continue
    yield { text, line }
  }
}

/** The lines unchanged, or as CSV (RFC 4180) with a header; each with its line end. */
export async function* exportAudit(
  file: string,
  selection: AuditSelection,
  format: 'jsonl' | 'csv',
): AsyncGenerator<string> {
  if (format === 'csv') yield `${FIELDS.join(',')}\r\n`
  for await (const { text, line } of selectedLines(file, selection)) {
    yield format === 'jsonl' ? `${text}\n` : `${FIELDS.map((field) => csvField(line[field])).join(',')}\r\n`
  }
}

/** The certificates of the selected lines, each with its line end. Those that are kept no longer are left out. */
export async function* exportCertificates(file: string, selection: AuditSelection): AsyncGenerator<string> {
  const certificateOf = storedCertificates(file)
  for await (const { line } of selectedLines(file, selection)) {
    const der = line.method === 'signCertificate' ? await certificateOf(line) : undefined
    if (der) yield encodePem('CERTIFICATE', der)
  }
}

function csvField(value: AuditLine[(typeof FIELDS)[number]]): string {
  const text = Array.isArray(value) ? value.join(' ') : String(value)
  // A client may choose text that a spreadsheet runs as a formula. The apostrophe keeps it text.
  const inert = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert
}

/** One line for people: what was signed, for whom, when. */
export function describeLine({ seq, time, method, issuer, serial, names, requester }: AuditLine): string {
  const of = [issuer, serial, names.join(' ')].filter((part) => part !== '').join('  ')
  return `${seq}  ${time}  ${method}  ${of}  (${requester})`
}

/** The newest `count` lines, oldest first. */
export async function lastLines(file: string, count: number): Promise<AuditLine[]> {
  const newest = closedSegments(file).at(-1)
  const kept: AuditLine[] = []
  // A new current file may hold fewer lines, so the newest segment is read too.
  for await (const { text } of auditLines(file, newest?.first ?? 0)) {
    const line = parseAuditLine(text)
    if (!line) continue
    kept.push(line)
    if (kept.length > count) kept.shift()
  }
  return kept
}

const FOLLOW_MS = 250

/** Yields lines added after line `after`, across rotations, until the signal. */
export async function* followLines(file: string, after: number, signal: AbortSignal): AsyncGenerator<AuditLine> {
  let seen = after
  let size = -1
  while (!signal.aborted) {
    const now = existsSync(file) ? statSync(file).size : 0
    if (now !== size) {
      size = now
      for await (const { text } of auditLines(file, seen + 1)) {
        const line = parseAuditLine(text)
        if (!line || line.seq <= seen) continue
        seen = line.seq
        yield line
      }
    }
    // Only the signal rejects the sleep, and the loop checks the signal.
    await sleep(FOLLOW_MS, undefined, { signal }).catch(() => undefined)
  }
}
