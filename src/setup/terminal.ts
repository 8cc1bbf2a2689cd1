/** Lines of at most 80 columns, questions, and secrets that are not shown while they are typed. */

import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

const WIDTH = 78

/** Breaks a text at spaces and indents its lines. */
export function wrapped(text: string, indent = '', width = WIDTH): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width - indent.length) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((one) => `${indent}${one}`).join('\n')
}

export interface Terminal {
  say(text?: string): void
  ask(prompt: string): Promise<string>
  askSecret(prompt: string): Promise<string>
  close(): void
}

/** @throws Error on Ctrl-C and at the end of the input; nothing is half done then */
export function openTerminal(): Terminal {
  let isHidden = false
  const output = new Writable({
    write(chunk, _encoding, done) {
      if (!isHidden) process.stdout.write(chunk)
      done()
    },
  })
  const lines = createInterface({ input: process.stdin, output, terminal: true, historySize: 0 })
  const ended = new AbortController()
  lines.once('close', () => ended.abort())
  const ask = async (prompt: string) => {
    try {
      return await lines.question(prompt, { signal: ended.signal })
    } catch (cause) {
      throw new Error('ended at a question; run chancery setup again when you like', { cause })
    }
  }
  return {
    say: (text = '') => console.log(text),
    ask,
    async askSecret(prompt) {
      process.stdout.write(prompt)
      isHidden = true
      try {
        return await ask('')
      } finally {
        isHidden = false
        process.stdout.write('\n')
      }
    },
    close: () => lines.close(),
  }
}
