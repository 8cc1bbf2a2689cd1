/** Asks a person at a terminal, or reads lines of standard input. */

import { createInterface } from 'node:readline/promises'
import { CommandError } from '../values.ts'

/** @throws CommandError without a terminal */
export async function askUsername(): Promise<string> {
  if (!process.stdin.isTTY) throw new CommandError('--username is needed where standard input is no terminal')
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return (await lines.question('username: ')).trim()
  } finally {
    lines.close()
  }
}

/** From a terminal without showing it; else the first line of standard input. */
export function askPassword(): Promise<string> {
  return process.stdin.isTTY ? typedPassword() : firstLine()
}

async function firstLine(): Promise<string> {
  let text = ''
  for await (const piece of process.stdin) {
    text += piece
    if (text.includes('\n')) break
  }
  const line = text.split(/\r?\n/)[0] ?? ''
  if (line !== '') return line
  throw new CommandError('the password is read from standard input, which is empty')
}

const ENTER = ['\r', '\n', '\u0004']
const INTERRUPT = '\u0003'
const BACKSPACE = ['\b', '\u007f']

function typedPassword(): Promise<string> {
  const { stdin, stderr } = process
  stderr.write('password: ')
  stdin.setRawMode(true).setEncoding('utf8').resume()
  return new Promise((resolve, reject) => {
    let typed: string[] = []
    const end = (finish: () => void) => {
      stdin.off('data', read).setRawMode(false).pause()
      stderr.write('\n')
      finish()
    }
    function read(keys: string): void {
      const stop = [...keys].findIndex((key) => key === INTERRUPT || ENTER.includes(key))
      for (const key of stop === -1 ? keys : [...keys].slice(0, stop))
        typed = BACKSPACE.includes(key) ? typed.slice(0, -1) : [...typed, key]
      if (stop === -1) return
      end(() => (keys[stop] === INTERRUPT ? reject(new CommandError('interrupted')) : resolve(typed.join(''))))
    }
    stdin.on('data', read)
  })
}
