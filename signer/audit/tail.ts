/**
 * The end of an audit chain as the start finds it: where the chain goes on,
 * and what a crash left behind it.
 *
 * What a crash can leave (bytes at the end, no more than one group, that are not whole JSON lines)
 * is told apart here from what it cannot: whole lines that do not link. The chain keeps the former
 * aside and goes on; of the latter the start dies.
 */

import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import path from 'node:path'
import { type AuditLine, type ChainPlace, follows, NO_PREVIOUS, parseAuditLine, sha256Hex } from './line.ts'
import { closedSegments } from './segments.ts'

/** What is written at once, and so what a crash can damage. */
export const MAX_GROUP_BYTES = 256 * 1024
const NEWLINE = 0x0a
const { O_RDWR, O_APPEND, O_CREAT, O_DSYNC } = constants

/** Where a chain goes on: behind its newest line. */
export interface Tail extends ChainPlace {
  /** Bytes of the current file up to and including the newest line. */
  length: number
}

/** Sequence number of the first line in the file beside it. */
type CurrentTail = Tail & { first: number }

/** `lines` are the newest, some 1,300 of a certificate with one name. */
interface End {
  tail: CurrentTail
  damaged: Buffer
  lines: AuditLine[]
}

/**
 * The current file, made (mode 0640) when it is missing. Each write is on
 * disk when it has returned.
 */
export const openForAppending = (file: string) => openSync(file, O_RDWR | O_APPEND | O_CREAT | O_DSYNC, 0o640)

/**
 * Opens the current file for appending, with the place behind its last whole
 * line and what stands behind that.
 * @throws Error in one sentence when the end of the file is no chain
 */
export function openAtTail(file: string): { fd: number } & End {
  const before = endOfNewestSegment(file)
  const fd = openForAppending(file)
  try {
    const end = readTail(file, fd, before.place)
    if (end.tail.length === 0) syncDirectory(file)
    return { fd, ...end, lines: [...before.lines, ...end.lines] }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** What the first line of the current file follows, and the lines before it. */
function endOfNewestSegment(file: string): { place: ChainPlace; lines: AuditLine[] } {
  const newest = closedSegments(file).at(-1)
  if (!newest) return { place: { sequence: 0, previous: NO_PREVIOUS }, lines: [] }
  const fd = openSync(newest.file, 'r')
  try {
    const { tail, damaged, lines } = readTail(newest.file, fd, undefined)
    // A segment was whole when it was closed.
    if (damaged.length > 0 || tail.sequence !== newest.last)
      throw new Error(`${newest.file}: does not end with line ${newest.last}; see audit verify`)
    return { place: tail, lines }
  } finally {
    closeSync(fd)
  }
}

/**
 * Reads the last lines, checks that they link, and separates crash damage behind them.
 * @param before what the first line follows; undefined where that is not known.
 */
function readTail(file: string, fd: number, before: ChainPlace | undefined): End {
  const { size } = fstatSync(fd)
  const start = Math.max(0, size - 2 * MAX_GROUP_BYTES)
  const bytes = Buffer.alloc(size - start)
  readSync(fd, bytes, 0, bytes.length, start)

  // A window that starts inside the file starts inside a line, whose end nobody can check here.
  let offset = start === 0 ? 0 : bytes.indexOf(NEWLINE) + 1
  const first = firstSequence(fd) ?? (before ? before.sequence + 1 : 1)
  // Where the segment before was moved elsewhere, what the first line follows cannot be told.
  const canTell = before !== undefined && (before.sequence > 0 || first === 1)
  const lines: AuditLine[] = []
  let tail: Tail | undefined = start === 0 && canTell ? { ...before, length: 0 } : undefined
  while (offset < bytes.length) {
    const end = bytes.indexOf(NEWLINE, offset)
    const text = end < 0 ? undefined : bytes.toString('utf8', offset, end)
    const line = text === undefined ? undefined : parseAuditLine(text)
    if (text === undefined || line === undefined) break
    if (tail && !follows(line, tail)) {
      throw new Error(
        `${file}: line ${line.seq} does not follow from the line before it; not crash damage, see audit verify`,
      )
    }
    lines.push(line)
    offset = end + 1
    tail = { sequence: line.seq, previous: sha256Hex(text), length: start + offset }
  }
  const damaged = Buffer.from(bytes.subarray(offset))
  if (!tail || damaged.length > MAX_GROUP_BYTES) {
    throw new Error(`${file}: its end is not an audit chain, and it is too long to be the damage of a crash`)
  }
  return { tail: { ...tail, first }, damaged, lines }
}

/** Of the first line in the file; undefined when there is none that can be read. */
function firstSequence(fd: number): number | undefined {
  const head = Buffer.alloc(64)
  const octets = readSync(fd, head, 0, head.length, 0)
  const seq = /^\{"seq":(\d+),/.exec(head.toString('latin1', 0, octets))?.[1]
  return seq === undefined ? undefined : Number(seq)
}

/**
 * Writes the damaged bytes to a new file, durably, before they leave the chain; `name`
 * with a number where there is one.
 */
export function keepAside(name: string, damaged: Buffer): string {
  const { file, fd } = openNew(name)
  try {
    for (let offset = 0; offset < damaged.length; ) offset += writeSync(fd, damaged, offset)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  syncDirectory(file)
  return file
}

/**
 * A crash may have come behind the bytes of an earlier repair and before
 * its line: those stay as they are.
 */
function openNew(name: string): { file: string; fd: number } {
  for (let number = 1; ; number++) {
    const file = number === 1 ? name : `${name}.${number}`
    try {
      return { file, fd: openSync(file, 'wx', 0o640) }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** A file that was made or renamed is there after a loss of power once its folder is. */
export function syncDirectory(file: string): void {
  const fd = openSync(path.dirname(file), 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
