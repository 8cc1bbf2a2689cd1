/**
 * Decisions in a file beside an instance, a JSON object a line. The first line names the file, so that a mark in the database
 * is of this file alone. Nothing is kept open: a command may append, too.
 */

import { randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises'
import path from 'node:path'
import { jsonObjectIn } from '../../shared/lib/encoding.ts'
import { syncFolder } from '../../shared/lib/files.ts'

/** A full file becomes `<file>.1`, that one `<file>.2`, and so on. */
const MOST_BYTES = 4 * 1024 * 1024
const MODE = 0o600
/** 32 MiB: a restored backup needs the files of its day. */
const FORMER = 7

interface FileDecisions {
  /** In hexadecimal; undefined for a file that is missing or damaged at its beginning. */
  id: string | undefined
  /** Id of the file before it; undefined in the first one. */
  after: string | undefined
  /** Each value has the number of its line; it is undefined where the line is no JSON object. */
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
      const after = await this.#turnOver()
      // Whole lines are followed by an empty one or by nothing, torn ones are not.
      const lines = texts.map((text) => `${text}\n`).join('\n')
      const file = await open(this.#path, 'a', MODE)
      try {
        const isNew = (await file.stat()).size === 0
        // A command of root makes it for the service.
        if (isNew && process.getuid?.() === 0) {
          const { uid, gid } = await stat(path.dirname(this.#path))
          await file.chown(uid, gid)
        }
        // One write: what another process appends comes before or after it. An empty line ends what a crash left torn.
        await file.appendFile(isNew ? `${header(after)}\n${lines}` : `\n${lines}`)
        await file.sync()
        if (isNew) await syncFolder(path.dirname(this.#path))
      } finally {
        await file.close()
      }
    } catch (cause) {
      throw new Error(`${this.#path}: ${(cause as Error).message}`, { cause })
    }
  }

  /** The former files and this one, the oldest first. @throws Error that names the file */
  async read(): Promise<FileDecisions[]> {
    const files: FileDecisions[] = []
    for (let n = FORMER; n >= 0; n--) {
      const text = await readIfThere(this.#former(n))
      if (text !== undefined) files.push(parse(text))
    }
    return files
  }

  #former(n: number): string {
    return n === 0 ? this.#path : `${this.#path}.${n}`
  }

  /** @returns the identity of the file before, where a new one begins */
  async #turnOver(): Promise<string | undefined> {
    const size = await stat(this.#path).then(
      (facts) => facts.size,
      () => 0,
    )
    if (size === 0) await mkdir(path.dirname(this.#path), { recursive: true, mode: 0o700 })
    if (size <= MOST_BYTES) return undefined
    const { id } = parse((await readIfThere(this.#path)) ?? '')
    for (let n = FORMER; n > 0; n--) await rename(this.#former(n - 1), this.#former(n)).catch(ignoreMissing)
    return id
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

const header = (after: string | undefined) => JSON.stringify({ decisions: randomBytes(16).toString('hex'), after })

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
    id: idOf(first, 'decisions'),
    after: idOf(first, 'after'),
    lines: rest.flatMap((line, at) => {
      const value = jsonObjectIn(line)
      const isTorn = value === undefined && rest[at + 1] !== ''
      return isTorn || isToSkip(line) ? [] : [{ number: at + 1, value }]
    }),
  }
}

function idOf(line: string, member: 'decisions' | 'after'): string | undefined {
  const id = jsonObjectIn(line)?.[member]
  return typeof id === 'string' && /^[0-9a-f]{32}$/.test(id) ? id : undefined
}

/** Two processes that make the file at the same moment leave two first lines. */
const isToSkip = (line: string) => line === '' || idOf(line, 'decisions') !== undefined
