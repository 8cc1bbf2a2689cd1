/**
 * Options that several commands take, and what they may hold: checked, with the flag in every
 * complaint.
 */

import { isUuid } from '../../shared/lib/uuid.ts'
import { parseTimestamp } from '../../shared/protocol/timestamp.ts'
import { UsageError } from './errors.ts'

/** What every command takes, before the command or behind it. */
export interface GlobalOptions {
  /** What stands on the command line beside command and options. */
  _: readonly string[]
  /** True when the file name is missing, a list when it was given twice. */
  config?: string | boolean | string[]
  debug?: boolean
  'validate-only'?: boolean
  dev?: boolean
}

/** What the parser makes of a flag with a value: a list where it is given several times. */
export type Text = string | string[]

/** The file that `-c` names, if it does. @throws UsageError */
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

/** Hexadecimal as openssl prints it: either case, with colons or without. @throws UsageError */
export function hexOf(flag: string, text: string): Buffer {
  const digits = text.replaceAll(':', '').toLowerCase()
  if (!/^(?:[0-9a-f]{2})+$/.test(digits)) throw new UsageError(`${flag} takes pairs of hexadecimal digits`)
  return Buffer.from(digits, 'hex')
}

/** @throws UsageError */
export function instantOf(flag: string, text: string): Date {
  // A date alone is its midnight in UTC.
  const at = parseTimestamp(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text)
  if (!at) throw new UsageError(`${flag} takes a date or an RFC 3339 time such as 2026-01-31T12:00:00Z`)
  return at
}
