/** Options that several commands take, checked. Every error names the flag. */

import { isUuid } from '../../shared/lib/uuid.ts'
import { parseTimestamp } from '../../shared/protocol/timestamp.ts'
import { UsageError } from './errors.ts'

/** Options of every command, before or behind it. */
export interface GlobalOptions {
  /** The words of the command line that belong to no option. */
  _: readonly string[]
  /** True when the file name is missing, a list when the flag appears twice. */
  config?: string | boolean | string[]
  debug?: boolean
  'validate-only'?: boolean
  dev?: boolean
}

/** The parsed value of a flag: a list when the flag appears several times. */
export type Text = string | string[]

/** The file that `-c` names, if any. @throws UsageError */
export function configOf({ config }: GlobalOptions): string | undefined {
  if (config === undefined || typeof config === 'string') return config
  throw new UsageError('-c takes one file name')
}

export function valuesOf(value: Text | undefined): string[] {
  return value === undefined ? [] : [value].flat()
}

/** @throws UsageError */
export function textOf(value: Text | undefined, flag: string): string | undefined {
  const values = valuesOf(value)
  if (values.length > 1) throw new UsageError(`${flag} is given once`)
  return values[0]
}

/** @throws UsageError */
export function portOf(value: number | undefined, flag: string): number {
  if (value === undefined || !Number.isInteger(value) || value < 1 || value > 65535)
    throw new UsageError(`${flag} takes a port number`)
  return value
}

/** @throws UsageError */
export function uuidOf(flag: string, text: string): string {
  const id = text.toLowerCase()
  if (!isUuid(id)) throw new UsageError(`${flag} takes a UUID`)
  return id
}

/** Hexadecimal in openssl's formats: either case, with or without colons. @throws UsageError */
export function hexOf(flag: string, text: string): Buffer {
  const digits = text.replaceAll(':', '').toLowerCase()
  if (!/^(?:[0-9a-f]{2})+$/.test(digits)) throw new UsageError(`${flag} takes pairs of hexadecimal digits`)
  return Buffer.from(digits, 'hex')
}

/** @throws UsageError */
export function instantOf(flag: string, text: string): Date {
  // A date without time means midnight in UTC.
  const at = parseTimestamp(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text)
  if (!at) throw new UsageError(`${flag} takes a date or an RFC 3339 time such as 2026-01-31T12:00:00Z`)
  return at
}
