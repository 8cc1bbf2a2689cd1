/** A line of the audit chain: its content, and its link to the line before. */

import { hash } from 'node:crypto'
import { createReadStream, existsSync, type ReadStream, readdirSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'

const DIGITS = 12

/**
 * The files of one audit chain. The chain writes to `audit.jsonl`; the segments `audit.jsonl.<first>-<last>` hold older
 * lines, named by sequence number. The current file links to the newest segment like two lines of one file.
 */
interface AuditSegment {
  file: string
  first: number
  last: number
}

/** The name of the current file after its closing. Names sort by sequence number. */
export function segmentName(file: string, first: number, last: number): string {
  const digits = (n: number) => String(n).padStart(DIGITS, '0')
  return `${file}.${digits(first)}-${digits(last)}`
}

/**
 * Closed segments in the folder, oldest first. An operator may have moved some elsewhere.
 * @param suffix of files made from segments, such as `.gz`
 */
export function closedSegments(file: string, suffix = ''): AuditSegment[] {
  const folder = path.dirname(file)
  const prefix = `${path.basename(file)}.`
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names
    .flatMap((name): AuditSegment[] => {
      if (!name.startsWith(prefix) || !name.endsWith(suffix)) return []
      const numbers = /^(\d{12,})-(\d{12,})$/.exec(name.slice(prefix.length, name.length - suffix.length))
      return numbers ? [{ file: path.join(folder, name), first: Number(numbers[1]), last: Number(numbers[2]) }] : []
    })
    .sort((a, b) => a.first - b.first)
}

interface LocatedLine {
  text: string
  file: string
  /** Within its file, from 1. */
  number: number
}

/** All lines in the folder, oldest first. It skips segments that end before sequence number `from`. */
export async function* auditLines(file: string, from = 0): AsyncGenerator<LocatedLine> {
  // Opened before the segments are listed: what is closed meanwhile is one of them, or is this file.
  const current = await open(file).catch(ifMissing)
  try {
    const inode = (await current?.stat())?.ino
    const segments = closedSegments(file).filter(({ last }) => last >= from)
    const isClosed = segments.some((one) => statSync(one.file, { throwIfNoEntry: false })?.ino === inode)
    for (const segment of segments) yield* linesOf(segment.file, createReadStream(segment.file))
    if (current !== undefined && !isClosed) yield* linesOf(file, current.createReadStream({ autoClose: false }))
  } finally {
    await current?.close()
  }
}

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

async function* linesOf(file: string, input: ReadStream): AsyncGenerator<LocatedLine> {
  let number = 0
  try {
    for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      number += 1
      yield { text, file, number }
    }
  } finally {
    input.destroy()
  }
}

/** The content of a line, without its place in the chain. */
export interface AuditRecord {
  method: 'signCertificate' | 'signCrl' | 'noteRevocations' | 'noteDecisions' | 'testSign' | 'auditRepair'
  issuer: string
  /** Serial number of a certificate or number of a CRL, in lower-case hex. Empty for other methods. */
  serial: string
  /**
   * A certificate has `dns:…` and `ip:…`. A CRL has `entries:…`, and `url:…` when it covers only
   * one distribution point.
   */
  names: readonly string[]
  /** Hex SHA-256 of the signed bytes; for auditRepair, of the damaged bytes. */
  sha256: string
  requester: string
}

export interface AuditLine extends AuditRecord {
  seq: number
  time: string
  /** Hex SHA-256 of the lines in a record file that belong to it. */
  record?: string
  previous: string
}

/** Stands in the first line in place of a hash. */
export const NO_PREVIOUS = '0'.repeat(64)

export const sha256Hex = (data: Uint8Array | string): string => hash('sha256', data, 'hex')

/** The place of a line, which the next line links to. */
export interface ChainPlace {
  sequence: number
  /** Hash of that line. */
  previous: string
}

export const follows = (line: AuditLine, { sequence, previous }: ChainPlace): boolean =>
  line.seq === sequence + 1 && line.previous === previous

/** @returns undefined for anything but a JSON object with a place in a chain. */
export function parseAuditLine(text: string): AuditLine | undefined {
  try {
    const line = JSON.parse(text) as Partial<AuditLine> | null
    return typeof line?.seq === 'number' && typeof line.previous === 'string' ? (line as AuditLine) : undefined
  } catch {
    return undefined
  }
}
