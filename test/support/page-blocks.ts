/**
 * The code blocks of a manual page that a test runs. After the opening fence are the language and a name: a path for what a file
 * holds, anything else for commands, none for what is only read.
 */

import { readFileSync } from 'node:fs'
import path from 'node:path'

/** Groups: indentation, language, name, lines. */
const FENCE = /^( *)```(\w*)(?: (\S+))?\n([\s\S]*?)^\1```$/gm
const ROOT = path.resolve(import.meta.dirname, '../../..')

export interface PageBlock {
  language: string
  name: string
  text: string
  /** The text between the heading above and this block, without blocks. */
  said: string
}

/** @param page from the root of the repository @returns its blocks in their order; one that is only read has the name '' */
export function allBlocksOf(page: string): PageBlock[] {
  const text = readFileSync(path.join(ROOT, page), 'utf8')
  const fences = [...text.matchAll(FENCE)]
  return fences.map(({ 1: indent = '', 2: language = '', 3: name = '', 4: lines = '', index }) => {
    const [said = ''] = text
      .slice(0, index)
      .replaceAll(FENCE, '')
      .split(/^(?=#+ )/m)
      .slice(-1)
    return { language, name, text: lines.replaceAll(new RegExp(`^${indent}`, 'gm'), ''), said }
  })
}

export const blocksOf = (page: string): PageBlock[] => allBlocksOf(page).filter(({ name }) => name !== '')

/** The block of this name, with other words in place of the page's. @throws Error when it or one of these words is not there */
export function pageBlock(page: string, name: string, values: Record<string, string> = {}): string {
  const found = blocksOf(page).find((block) => block.name === name)
  if (found === undefined) throw new Error(`${page} has no block ${name}`)
  return Object.entries(values).reduce((text, [word, value]) => {
    if (!text.includes(word)) throw new Error(`the block ${name} of ${page} has no ${word}`)
    return text.replaceAll(word, value)
  }, found.text)
}

/** Reads a block with one command of `chancery`. @returns what is typed after its configuration */
export function wordsOf(page: string, name: string, values: Record<string, string>): string[] {
  const [, typed = ''] = /^chancery -c \S+ (.*)$/m.exec(pageBlock(page, name, values)) ?? []
  return typed.split(' ')
}

export const isFile = ({ name }: PageBlock) => name.startsWith('/')
