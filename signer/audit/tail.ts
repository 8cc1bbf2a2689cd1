/**
 * Finds the end of an audit chain when the daemon starts.
 *
 * A crash can leave damaged bytes at the end: no whole JSON lines, and no more than one group. The chain keeps those
 * bytes aside and continues. Whole lines that do not link are no crash damage, and the start fails.
 */

import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { AppendFile, openForAppending } from './append-file.ts'
import {
  type AuditLine,
  type ChainPlace,
  closedSegments,
  follows,
  NO_PREVIOUS,
  parseAuditLine,
  sha256Hex,
} from './line.ts'

/** The most that one write holds, and so the most that a crash can damage. */
export const MAX_GROUP_BYTES = 256 * 1024
const NEWLINE = 0x0a
/** Puts each write on disk before it returns. */
const flags = constants.O_DSYNC

/** Where a chain continues: after its newest line. */
export interface Tail extends ChainPlace {
  /** Bytes of the current file up to and including the newest line. */
  length: number
}

/** A tail with the sequence number of the file's first line. */
type CurrentTail = Tail & { first: number }

/** `lines` are the newest: about 900 when each certificate has two names. */
interface End {
  tail: CurrentTail
  damaged: Buffer
  lines: AuditLine[]
}

/**
 * Opens the current file for appending. Returns the place after its last whole line, and the bytes behind.
 * @throws Error in one sentence when the end of the file is no chain
 */
export function openAtTail(file: string): { open: AppendFile } & End {
  const before = endOfNewestSegment(file)
  const fd = openForAppending(file, flags)
  try {
    const end = readTail(file, fd, before.place)
    if (end.tail.length === 0) syncDirectory(file)
    const length = end.tail.length + end.damaged.length
    return { open: new AppendFile(file, { fd, length, flags }), ...end, lines: [...before.lines, ...end.lines] }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** The place that the current file links to, and the lines before. */
function endOfNewestSegment(file: string): { place: ChainPlace; lines: AuditLine[] } {
  const newest = closedSegments(file).at(-1)
  if (!newest) return { place: { sequence: 0, previous: NO_PREVIOUS }, lines: [] }
  const fd = openSync(newest.file, 'r')
  try {
    const { tail, damaged, lines } = readTail(newest.file, fd, undefined)
    // The chain closes only whole segments, so this is no crash damage.
    if (damaged.length > 0 || tail.sequence !== newest.last)
      throw new Error(`${newest.file}: does not end with line ${newest.last}; see audit verify`)
    return { place: tail, lines }
  } finally {
    closeSync(fd)
  }
}

/**
 * Reads the last lines, checks that they link, and separates crash damage at the end.
 * @param before place that the first line links to; undefined when unknown
 */
function readTail(file: string, fd: number, before: ChainPlace | undefined): End {
  const { size } = fstatSync(fd)
  const start = Math.max(0, size - 2 * MAX_GROUP_BYTES)
  const bytes = Buffer.alloc(size - start)
  readSync(fd, bytes, 0, bytes.length, start)

  // A window inside the file starts inside a line, which cannot be checked.
  let offset = start === 0 ? 0 : bytes.indexOf(NEWLINE) + 1
  const first = firstSequence(fd) ?? (before ? before.sequence + 1 : 1)
  // An operator may have moved the segment before, so the first link cannot be checked.
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

/** Sequence number of the file's first line; undefined when it is missing or unreadable. */
function firstSequence(fd: number): number | undefined {
  const head = Buffer.alloc(64)
  const octets = readSync(fd, head, 0, head.length, 0)
  const seq = /^\{"seq":(\d+),/.exec(head.toString('latin1', 0, octets))?.[1]
  return seq === undefined ? undefined : Number(seq)
}

/**
 * Saves the damaged bytes durably in a new file, before the chain drops them. Adds a number to
 * `name` when the file exists.
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

/** A crash between an earlier repair and its audit line leaves a file. It must survive. */
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

/** Syncs the folder, so that a new or renamed file survives a loss of power. */
export function syncDirectory(file: string): void {
  const fd = openSync(path.dirname(file), 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/* Room: whether a write failed on a full disk, and whether there is room again. */

/** A full disk (ENOSPC) or a used-up quota (EDQUOT). Both conditions pass. */
const NO_ROOM: readonly unknown[] = ['ENOSPC', 'EDQUOT']

export const isWantOfRoom = (error: unknown): boolean => NO_ROOM.includes((error as NodeJS.ErrnoException).code)

/** Writes a trial file of one full group: the rest of a block would hold only a few lines. */
export async function hasRoom(file: string): Promise<boolean> {
  const trial = `${file}.room`
  try {
    await writeFile(trial, Buffer.alloc(MAX_GROUP_BYTES), { mode: 0o640, flush: true })
    return true
  } catch {
    // Whatever stops the trial would stop a line, too. The next check tries again.
    return false
  } finally {
    // The next try writes over a trial that stayed.
    await rm(trial, { force: true }).catch(() => undefined)
  }
}
