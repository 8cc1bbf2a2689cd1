/** Values of options that several commands take. */

import { parseTimestamp } from '../../protocol/timestamp.ts'
import { UsageError } from './config-file.ts'

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
