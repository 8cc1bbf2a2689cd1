/**
 * Reads passphrases and PINs from a private file, the environment or the terminal. A command line
 * would show them to other users.
 */

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { ReadStream, WriteStream } from 'node:tty'
import { withoutLineEnds } from '../../src/shared/lib/secret-box.ts'

/** At most one is set. */
export interface SecretSource {
  file?: string | undefined
  env?: string | undefined
  prompt?: boolean | undefined
}

const TERMINAL = '/dev/tty'
const CTRL_C = '\u0003'
const CTRL_D = '\u0004'
const BACKSPACE = new Set(['\u0008', '\u007f'])

/**
 * @param what names the secret in messages and at the prompt, such as `PIN of token ca`
 * @returns undefined when no source is set
 * @throws Error in one sentence; it never holds the secret
 */
export async function readSecret({ file, env, prompt }: SecretSource, what: string): Promise<string | undefined> {
  if (file !== undefined) return withoutLineEnds(readPrivateFile(file).toString('utf8'))
  if (env !== undefined) {
    const value = withoutLineEnds(process.env[env] ?? '')
    if (value !== '') return value
    throw new Error(`the environment variable ${env} is empty; it should hold the ${what}`)
  }
  return prompt === true ? await promptFor(what) : undefined
}

/**
 * Reads a file that only its owner may read. Opens it once, so that the checked file is the one read.
 * @throws Error in one sentence when it is open to others, or not a file
 */
export function readPrivateFile(file: string): Buffer {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch (cause) {
    throw new Error(`${file}: cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile()) throw new Error(`${file}: is not a file`)
    if ((stats.mode & 0o077) === 0) return readFileSync(fd)
    throw new Error(`${file}: mode ${(stats.mode & 0o777).toString(8)} lets others read it; use 600 or 400`)
  } finally {
    closeSync(fd)
  }
}

/** Prompts on the terminal of the process, even when standard input is another file. Typed text is not shown. */
async function promptFor(what: string): Promise<string> {
  let fd: number
  try {
    fd = openSync(TERMINAL, 'r+')
  } catch (cause) {
    throw new Error(`there is no terminal to ask for the ${what}; use a file or the environment`, { cause })
  }
  // Each stream closes its descriptor, so each needs its own.
  const output = new WriteStream(openSync(TERMINAL, 'w'))
  const input = new ReadStream(fd)
  // Before the prompt, or the terminal would echo a quick answer.
  input.setRawMode(true)
  output.write(`${what}: `)
  try {
    return await readTyped(input)
  } finally {
    input.setRawMode(false)
    output.write('\n')
    input.destroy()
    output.destroy()
  }
}

function readTyped(input: ReadStream): Promise<string> {
  return new Promise((resolve, reject) => {
    let typed: string[] = []
    input.setEncoding('utf8')
    input.once('error', reject)
    input.on('data', (chunk: string | Buffer) => {
      for (const character of String(chunk)) {
        if (character === '\r' || character === '\n' || character === CTRL_D) return resolve(typed.join(''))
        if (character === CTRL_C) return reject(new Error('interrupted at the prompt'))
        typed = BACKSPACE.has(character) ? typed.slice(0, -1) : [...typed, character]
      }
      return undefined
    })
  })
}
