/** Asks for a password. On the command line other users could read it in the list of processes. */

import { CommandError } from './values.ts'

/**
 * Reads it from a terminal without showing it, else from the first line of standard input.
 * @param what such as `password`
 */
export function askPassword(what: string): Promise<string> {
  return process.stdin.isTTY ? typedPassword(what) : firstLine(what)
}

async function firstLine(what: string): Promise<string> {
  let text = ''
  for await (const piece of process.stdin) {
    text += piece
    if (text.includes('\n')) break
  }
  const line = text.split(/\r?\n/)[0] ?? ''
  if (line !== '') return line
  throw new CommandError(`the ${what} is read from standard input, which is empty`)
}

const ENTER = ['\r', '\n', '\u0004']
const INTERRUPT = '\u0003'
const BACKSPACE = ['\b', '\u007f']

function typedPassword(what: string): Promise<string> {
  const { stdin, stderr } = process
  stderr.write(`${what}: `)
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
