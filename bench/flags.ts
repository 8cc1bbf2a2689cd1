/** Checks of the values that options of the bench take. Each throws a plain sentence. */

import { closeSync, openSync, readFileSync } from 'node:fs'

export const text = (value: string): string => value

export const integer = (least: number, most: number) => number(least, most, true)

export function number(least: number, most: number, isWhole = false): (text: string) => number {
  return (text) => {
    const value = Number(text || Number.NaN)
    if (value >= least && value <= most && (!isWhole || Number.isInteger(value))) return value
    throw new Error(`must be a ${isWhole ? 'whole ' : ''}number from ${least} to ${most}`)
  }
}

export function matching(pattern: RegExp, sentence: string): (text: string) => string {
  return (text) => {
    if (pattern.test(text)) return text
    throw new Error(sentence)
  }
}

/** Words with commas between. */
export function someOf<T extends string>(known: readonly T[]): (text: string) => T[] {
  return (text) =>
    text.split(',').map((word) => {
      const name = known.find((one) => one === word.trim())
      if (name === undefined) throw new Error(`${word} is not one of ${known.join(', ')}`)
      return name
    })
}

export function url(text: string): string {
  if (/^https?:\/\//.test(text) && URL.canParse(text)) return text
  throw new Error('must be an http or https URL')
}

export function contentOf(file: string): string {
  return readFileSync(file, 'utf8')
}

/** A file that is written in the end: whether it can be is tried now. */
export function output(file: string): string {
  closeSync(openSync(file, 'a'))
  return file
}
