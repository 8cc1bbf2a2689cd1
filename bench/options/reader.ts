/** Values as the argument parser leaves them, checked one by one; what is wrong is gathered, so that all of it is told at once. */

import { readFileSync } from 'node:fs'
import { whyNotWritable } from './outputs.ts'

/** Name, sentence, default: what `--help` shows and what is accepted. */
export type Flag = readonly [name: string, sentence: string, fallback?: string | number]

export type Raw = Readonly<Record<string, unknown>>

/**
 * What was given, and the defaults of the command's own flags for the rest. The parser puts every flag there, one that was not given
 * with its default or as undefined: a default that is to count stands in the list of flags, and nowhere else.
 */
export function withDefaults(flags: readonly Flag[], given: Raw): Raw {
  return { ...given, ...Object.fromEntries(flags.map(([name, , fallback]) => [name, given[name] ?? fallback])) }
}

export interface Bounds {
  min: number
  max: number
}

/** Timers end at 24 days; a week is more than anybody measures. */
export const SECONDS: Bounds = { min: 0, max: 604_800 }
/** Of what would be no time at all at 0. */
export const SECONDS_AT_LEAST: Bounds = { ...SECONDS, min: 0.001 }
export const COUNT: Bounds = { min: 1, max: 1_000_000_000 }

export class OptionsError extends Error {
  constructor(errors: readonly string[]) {
    super(errors.join('\n'))
    this.name = 'OptionsError'
  }
}

/** Reads values as the argument parser left them and gathers what is wrong with them. */
export class Reader {
  readonly errors: string[] = []
  readonly #raw: Raw

  constructor(raw: Raw) {
    this.#raw = raw
  }

  optionalText(name: string): string | undefined {
    const value = this.#raw[name]
    if (value === undefined) return undefined
    if (typeof value === 'string' || typeof value === 'number') return String(value)
    this.errors.push(`--${name}: give it one value`)
    return undefined
  }

  text(name: string): string {
    return this.optionalText(name) ?? ''
  }

  flag(name: string): boolean {
    const value = this.#raw[name] ?? false
    if (typeof value !== 'boolean') this.errors.push(`--${name}: takes no value`)
    return value === true
  }

  number(name: string, { min, max }: Bounds): number {
    const value = Number(this.text(name) || Number.NaN)
    if (value >= min && value <= max) return value
    this.errors.push(`--${name} ${this.text(name)}: must be a number from ${min} to ${max}`)
    return min
  }

  integer(name: string, { min, max }: Bounds): number {
    const value = Number(this.text(name) || Number.NaN)
    if (Number.isInteger(value) && value >= min && value <= max) return value
    this.errors.push(`--${name} ${this.text(name)}: must be a whole number from ${min} to ${max}`)
    return min
  }

  optionalInteger(name: string, bounds: Bounds): number | undefined {
    return this.#raw[name] === undefined ? undefined : this.integer(name, bounds)
  }

  /** A file that is written later. */
  output(name: string): string | undefined {
    const file = this.optionalText(name)
    const reason = file === undefined ? undefined : whyNotWritable(file)
    if (reason !== undefined) this.errors.push(`--${name} ${file}: ${reason}`)
    return file
  }

  url(name: string): string {
    const text = this.text(name)
    if (/^https?:\/\//.test(text) && URL.canParse(text)) return text
    this.errors.push(`--${name} ${text}: must be an http or https URL`)
    return ''
  }

  file(name: string): string | undefined {
    const path = this.optionalText(name)
    return path === undefined ? undefined : this.content(name, path)
  }

  /** @returns what stands in a file. */
  content(name: string, path: string): string | undefined {
    try {
      return readFileSync(path, 'utf8')
    } catch (error) {
      this.errors.push(`--${name} ${path}: ${(error as Error).message}`)
      return undefined
    }
  }
}
