/**
 * Decisions in a file beside an instance, a JSON object a line. The first line names the file, so that a mark in the database
 * is of this file alone. Nothing is kept open: a command may append, too.
 */

import { randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises'
import path from 'node:path'

/** Then it becomes `<file>.1`, and the one before goes. */
const MOST_BYTES = 4 * 1024 * 1024
const MODE = 0o600

export interface FileDecisions {
  /** In hexadecimal; undefined for a file that is missing or damaged at its beginning. */
  id: string | undefined
  /** With the number of its line; undefined for a line that is no JSON object. */
  lines: readonly { number: number; value: Record<string, unknown> | undefined }[]
}

export class DecisionFile {
  readonly #path: string

  constructor(file: string) {
    this.#path = path.resolve(file)
  }

  /** Resolves when they are on disk. @throws Error that names the file */
  async append(texts: readonly string[]): Promise<void> {
    try {
      await this.#turnOver()
      const lines = texts.map((text) => `${text}\n`).join('')
      const file = await open(this.#path, 'a', MODE)
      try {
        const isNew = (await file.stat()).size === 0
        // A command of root makes it for the service.
        if (isNew && process.getuid?.() === 0) {
          const { uid, gid } = await stat(path.dirname(this.#path))
          await file.chown(uid, gid)
        }
        // One write: what another process appends comes before or after it. An empty line ends what a crash left torn.
        await file.appendFile(isNew ? `${header()}\n${lines}` : `\n${lines}`)
        await file.sync()
        if (isNew) await syncFolder(this.#path)
      } finally {
        await file.close()
      }
    } catch (cause) {
      throw new Error(`${this.#path}: ${(cause as Error).message}`, { cause })
    }
  }

  /** The former file and this one. @throws Error that names the file */
  async read(): Promise<FileDecisions[]> {
    const files = await Promise.all([`${this.#path}.1`, this.#path].map((file) => readIfThere(file)))
    return files.flatMap((text) => (text === undefined ? [] : [parse(text)]))
  }

  async #turnOver(): Promise<void> {
    const size = await stat(this.#path).then(
      (facts) => facts.size,
      () => 0,
    )
    if (size === 0) await mkdir(path.dirname(this.#path), { recursive: true, mode: 0o700 })
    if (size > MOST_BYTES) await rename(this.#path, `${this.#path}.1`)
  }
}

/** Else a loss of power could take the file's name. */
async function syncFolder(file: string): Promise<void> {
  const folder = await open(path.dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

const header = () => JSON.stringify({ decisions: randomBytes(16).toString('hex') })

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`${file}: ${(cause as Error).message}`, { cause })
  }
}

function parse(text: string): FileDecisions {
  const [first = '', ...rest] = text.split('\n')
  return {
    id: idOf(first),
    lines: rest.flatMap((line, at) => (isToSkip(line) ? [] : [{ number: at + 1, value: objectOf(line) }])),
  }
}

function idOf(line: string): string | undefined {
  const id = objectOf(line)?.['decisions']
  return typeof id === 'string' && /^[0-9a-f]{32}$/.test(id) ? id : undefined
}

/** Two processes that make the file at the same moment leave two first lines. */
const isToSkip = (line: string) => line === '' || idOf(line) !== undefined

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
