/**
 * The code blocks of a manual page that a test runs. Behind the opening fence are the language and a name: a path for what a file
 * holds, anything else for commands, none for what is only read.
 */

import { readFileSync } from 'node:fs'

export interface PageBlock {
  language: string
  name: string
  text: string
}

export function blocksOf(file: string): PageBlock[] {
  const fences = readFileSync(file, 'utf8').matchAll(/^```(\w+)(?: (\S+))?\n([\s\S]*?)^```$/gm)
  return [...fences].flatMap(([, language = '', name, text = '']) =>
    name === undefined ? [] : [{ language, name, text }],
  )
}

export const isFile = ({ name }: PageBlock) => name.startsWith('/')
