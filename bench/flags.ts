/** Flags of a command line as a table: sentence, check and default of each; what is wrong is told all at once. */

import { closeSync, openSync, readFileSync } from 'node:fs'

/** `--help` shows the sentence and the default; `read` throws a plain sentence for a value that is wrong. */
export interface Flag<T> {
  sentence: string
  read(text: string): T
  fallback?: string | number
  /** Takes no value. */
  isSwitch?: true
}

export type Flags = Readonly<Record<string, Flag<unknown>>>

/** Undefined for what was not given and has no default. */
export type Values<F extends Flags> = { [K in keyof F]: F[K] extends Flag<infer T> ? T : never }

/** As the argument parser leaves it. */
export type Raw = Readonly<Record<string, unknown>>

export class OptionsError extends Error {
  constructor(errors: readonly string[]) {
    super(errors.join('\n'))
    this.name = 'OptionsError'
  }
}

/** @throws OptionsError naming everything that is wrong */
export function readFlags<F extends Flags>(flags: F, raw: Raw): Values<F> {
  const errors: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, flag] of Object.entries(flags)) {
    const given = raw[name] ?? flag.fallback
    try {
      values[name] = readOne(flag, given)
    } catch (error) {
      errors.push(`--${name} ${String(given)}: ${(error as Error).message}`)
    }
  }
  if (errors.length > 0) throw new OptionsError(errors)
  return values as Values<F>
}

function readOne({ read, isSwitch }: Flag<unknown>, given: unknown): unknown {
  if (isSwitch) return given === true
  if (given === undefined) return undefined
  if (typeof given !== 'string' && typeof given !== 'number') throw new Error('give it one value')
  return read(String(given))
}

export function flag<T>(sentence: string, read: (text: string) => T, fallback: string | number): Flag<T> {
  return { sentence, read, fallback }
}

export function optional<T>(sentence: string, read: (text: string) => T): Flag<T | undefined> {
  return { sentence, read }
}

export function isGiven(sentence: string): Flag<boolean> {
  return { sentence, read: () => true, isSwitch: true }
}

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
