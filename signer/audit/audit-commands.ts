/** `audit verify`, `audit tail`, `audit export`: what the command line shows of an audit chain. */

import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { plural } from '../../src/shared/lib/plural.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { RecordCheck, storedCertificates } from '../records/stored-records.ts'
import { type AuditLine, auditLines, closedSegments, NO_PREVIOUS, parseAuditLine, sha256Hex } from './line.ts'

type AuditVerdict =
  | {
      ok: true
      lines: number
      signatures: number
      /** Crashes that left damaged bytes. */
      repairs: number
      /** Sequence number of the first line found. It is above 1 when older segments are elsewhere. */
      first: number
      /** Record files that are there. */
      records: Pick<RecordCheck, 'found' | 'missing'>
      /** Hash of the newest line. An operator who noted it can later detect a shortened chain. */
      head: string
    }
  | { ok: false; file: string; line: number; reason: string }

/** The kind that a line counts as; nothing for a note. */
const KINDS: Partial<Record<AuditLine['method'], 'signatures' | 'repairs'>> = {
  signCertificate: 'signatures',
  signCrl: 'signatures',
  testSign: 'signatures',
  auditRepair: 'repairs',
}

/**
 * Detects any change inside the chain. Only an earlier `head` reveals a shortened end. A file in
 * use may end in an unfinished line, so check a copy.
 */
export async function verifyAuditChain(file: string): Promise<AuditVerdict> {
  const counts = { lines: 0, signatures: 0, repairs: 0 }
  const records = await RecordCheck.open(file)
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
    const difference = await records.check(line)
    if (difference !== undefined) return wrong(difference)
    counts.lines += 1
    const kind = KINDS[line.method]
    if (kind) counts[kind] += 1
    head = sha256Hex(text)
  }
  await records.readOn()
  if (records.damaged) {
    const { file, damage } = records.damaged
    return {
      ok: false,
      file,
      line: damage.first,
      reason: `${plural(damage.lines, 'record')} from here on cannot be read`,
    }
  }
  return { ok: true, ...counts, first: first ?? 1, records, head }
}

/** @returns whether the chain is whole */
export async function verifyCommand(file: string): Promise<boolean> {
  requireFile(file)
  const verdict = await verifyAuditChain(file)
  if (!verdict.ok) {
    console.error(`${verdict.file}: line ${verdict.line}: ${verdict.reason}`)
    return false
  }
  if (verdict.first > 1) console.log(`${file}: lines before ${verdict.first} are not here`)
  const repairs = verdict.repairs === 0 ? '' : `, ${verdict.repairs} repaired after a crash`
  console.log(`${file}: ${verdict.lines} lines, ${verdict.signatures} signatures${repairs}`)
  const { found, missing } = verdict.records
  if (found > 0)
    console.log(
      `${found} records agree with their lines${missing === 0 ? '' : `; those of ${missing} newer lines are not here`}`,
    )
  console.log(`head ${verdict.head}`)
  console.log(`not seen: lines after ${verdict.first + verdict.lines - 1} that were cut away: compare heads`)
  return true
}

interface TailOptions {
  lines: number
  follow: boolean
  json: boolean
}

export async function tailCommand(file: string, { lines: count, follow, json }: TailOptions): Promise<boolean> {
  if (!Number.isSafeInteger(count) || count < 0) throw new Error('--lines takes a whole number')
  const show = (line: AuditLine) => console.log(json ? JSON.stringify(line) : describeLine(line))
  requireFile(file)
  const lines = await lastLines(file, count)
  for (const line of lines) show(line)
  if (!follow) return true

  const interrupt = new AbortController()
  process.once('SIGINT', () => interrupt.abort())
  const newest = (await lastLines(file, 1)).at(-1)?.seq ?? 0
  for await (const line of followLines(file, lines.at(-1)?.seq ?? newest, interrupt.signal)) show(line)
  return true
}

interface ExportOptions {
  format: string
  since: string | undefined
  until: string | undefined
  issuer: string | undefined
  serial: string | undefined
}

export async function exportCommand(file: string, options: ExportOptions): Promise<boolean> {
  const { format } = options
  if (format !== 'jsonl' && format !== 'csv' && format !== 'pem') throw new Error('--format is jsonl, csv or pem')
  requireFile(file)
  const selection: AuditSelection = {
    since: timeOf('--since', options.since),
    until: timeOf('--until', options.until),
    issuer: options.issuer,
    serial: options.serial?.toLowerCase(),
  }
  const texts = format === 'pem' ? exportCertificates(file, selection) : exportAudit(file, selection, format)
  let hasFailed = false
  process.stdout.once('error', () => (hasFailed = true))
  for await (const text of texts) {
    if (hasFailed) break
    // The program reports an error of its output (src/shared/command-line.ts).
    if (!process.stdout.write(text)) await once(process.stdout, 'drain').catch(() => undefined)
  }
  return true
}

function timeOf(flag: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined
  const time = new Date(text)
  if (Number.isNaN(time.getTime())) throw new Error(`${flag} is not a time such as 2026-01-01T00:00:00Z`)
  return time
}

function requireFile(file: string): void {
  if (!existsSync(file) && closedSegments(file).length === 0) throw new Error(`${file}: there is no such audit chain`)
}

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
