/**
 * The files of the archive: certificates as lines of JSON, compressed, and a manifest with one line for each file.
 *
 * A file gets its name when it is whole on the disk. Its line in the manifest follows, with the SHA-256 of the file and of
 * the line before: who knows the last line's hash can check everything. A crash in between leaves a file that no line
 * names; its certificates are still in the database, and are archived again.
 */

import { createHash, hash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { syncFolder } from '../../shared/lib/files.ts'

export const MANIFEST = 'manifest.jsonl'
const UNFINISHED = '.unfinished'
/** A file takes seconds, so one that is older was left by a crash. */
const LEFT_AFTER_MS = 3_600_000

interface ArchivedRange {
  certificates: number
  first_not_after: string
  last_not_after: string
}

/** A line of the manifest. */
export interface ArchiveFile extends ArchivedRange {
  file: string
  bytes: number
  /** The SHA-256 of the file as it lies there, in hexadecimal. */
  sha256: string
  written_at: string
  /** SHA-256 of the line before, without its line end. */
  previous: string
}

/** Stands in the first line in place of a hash. */
export const NO_PREVIOUS = '0'.repeat(64)
export const hashOfLine = (line: string): string => hash('sha256', line, 'hex')

export class Archive {
  readonly #folder: string
  readonly #manifest: FileHandle
  /** Length of the manifest, which no other process may change. */
  #length: number
  #last: string

  /** Use `openArchive`. */
  constructor(folder: string, manifest: FileHandle, length: number, last: string) {
    this.#folder = folder
    this.#manifest = manifest
    this.#length = length
    this.#last = last
  }

  /** SHA-256 of the manifest's last line. */
  get head(): string {
    return this.#last === '' ? NO_PREVIOUS : hashOfLine(this.#last)
  }

  /**
   * Writes a file; when this resolves, file and manifest are on the disk.
   * @param lines pages of lines, each with its line end; an error of theirs leaves no file
   * @param range asked after the last line; no file is kept where it says 0 certificates
   * @throws file errors
   */
  async add(lines: AsyncIterable<string>, range: () => ArchivedRange): Promise<ArchiveFile | undefined> {
    const unfinished = path.join(this.#folder, `${randomUUID()}${UNFINISHED}`)
    try {
      const { sha256, bytes } = await compress(lines, unfinished)
      const covered = range()
      if (covered.certificates === 0) return undefined
      const file = `${dayOf(covered.first_not_after)}-${dayOf(covered.last_not_after)}-${sha256.slice(0, 12)}.jsonl.gz`
      await rename(unfinished, path.join(this.#folder, file))
      await syncFolder(this.#folder)
      const entry = { file, ...covered, bytes, sha256, written_at: new Date().toISOString(), previous: this.head }
      // The same rows make the same bytes: after a failed removal the file is named already.
      if (!this.#last.includes(`"${sha256}"`)) await this.#append(JSON.stringify(entry))
      return entry
    } finally {
      await rm(unfinished, { force: true })
    }
  }

  async #append(line: string): Promise<void> {
    const { size } = await this.#manifest.stat()
    if (size !== this.#length) throw new Error(`another process has written to ${path.join(this.#folder, MANIFEST)}`)
    await this.#manifest.appendFile(`${line}\n`)
    await this.#manifest.sync()
    this.#length += Buffer.byteLength(line) + 1
    this.#last = line
  }

  async close(): Promise<void> {
    await this.#manifest.close()
  }
}

/** Makes the folder where it is missing, and removes what a crash has left unfinished. @throws file errors */
export async function openArchive(folder: string): Promise<Archive> {
  await mkdir(folder, { recursive: true, mode: 0o750 })
  await removeUnfinished(folder)
  const manifest = await open(path.join(folder, MANIFEST), 'a+', 0o640)
  try {
    let [length, last] = [0, '']
    for await (const line of linesOf(createReadStream(path.join(folder, MANIFEST)))) {
      if (!line.isWhole) break
      length += Buffer.byteLength(line.text) + 1
      last = line.text
    }
    // Only a crash tears the last line, and no row was removed then.
    await manifest.truncate(length)
    await syncFolder(folder)
    return new Archive(folder, manifest, length, last)
  } catch (error) {
    await manifest.close()
    throw error
  }
}

async function removeUnfinished(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.endsWith(UNFINISHED)) continue
    const file = path.join(folder, name)
    if (Date.now() - (await stat(file)).mtimeMs > LEFT_AFTER_MS) await rm(file, { force: true })
  }
}

async function compress(lines: AsyncIterable<string>, file: string): Promise<{ sha256: string; bytes: number }> {
  const sum = createHash('sha256')
  let bytes = 0
  async function* counted(chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      sum.update(chunk)
      bytes += chunk.length
      yield chunk
    }
  }
  const target = createWriteStream(file, { flags: 'wx', mode: 0o640, flush: true })
  await pipeline(Readable.from(lines, { highWaterMark: 1 }), createGzip(), counted, target)
  return { sha256: sum.digest('hex'), bytes }
}

const dayOf = (time: string) => time.slice(0, 10).replaceAll('-', '')

/** Longer than a certificate with the evidence of a hundred names. */
const MAX_LINE = 8 * 1024 * 1024

/** @throws Error for a line above `MAX_LINE`, so that a damaged file does not fill the memory */
async function* linesOf(bytes: Readable): AsyncGenerator<{ text: string; isWhole: boolean }> {
  bytes.setEncoding('utf8')
  let rest = ''
  for await (const chunk of bytes as AsyncIterable<string>) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    if (rest.length > MAX_LINE) throw new Error(`has a line of more than ${MAX_LINE} characters`)
    for (const text of parts) yield { text, isWhole: true }
  }
  if (rest !== '') yield { text: rest, isWhole: false }
}

/** The lines of the manifest, oldest first. @throws file errors */
export async function* manifestLines(folder: string): AsyncGenerator<string> {
  for await (const { text, isWhole } of linesOf(createReadStream(path.join(folder, MANIFEST)))) if (isWhole) yield text
}

/** The lines of a file of the archive. @throws file errors, and errors of its compression */
export async function* certificateLines(folder: string, file: string): AsyncGenerator<string> {
  const source = createReadStream(path.join(folder, file))
  const unpacked = source.pipe(createGunzip())
  source.on('error', (error) => unpacked.destroy(error))
  try {
    for await (const { text } of linesOf(unpacked)) yield text
  } finally {
    source.destroy()
  }
}

/** Whole files, named by the manifest or not. */
export async function filesIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith('.jsonl.gz'))
}
