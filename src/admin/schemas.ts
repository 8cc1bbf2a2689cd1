/** Schemas that several resources share. */

import { z } from 'zod/v4'
import { parseSerialNumber } from '../domain/serial-number.ts'

export const uuid = () => z.uuid({ error: 'must be a UUID' }).transform((id) => id.toLowerCase())
export const timestamp = () => z.iso.datetime()
/** Timestamps leave as RFC 3339 in UTC. */
export const time = (at: Date): string => at.toISOString()
export const timeOrNull = (at: Date | null): string | null => at?.toISOString() ?? null

const DATE = /^\d{4}-\d\d-\d\d$/

/** ISO 8601; a date alone means midnight UTC. */
export const instantParameter = () =>
  z
    .string()
    .refine((text) => isInstant(text), { error: 'must be a time such as 2026-01-31T12:00:00Z, or a date' })
    .transform((text) => new Date(DATE.test(text) ? `${text}T00:00:00Z` : text))
    .meta({ format: 'date-time' })

/** The end of something that begins now. */
export const futureInstant = () =>
  instantParameter()
    .refine((at) => at.getTime() > Date.now(), { error: 'must be in the future' })
    .meta({ format: 'date-time' })

function isInstant(text: string): boolean {
  if (!DATE.test(text) && !z.iso.datetime({ offset: true }).safeParse(text).success) return false
  // PostgreSQL has no year 0, and neither side writes years of five digits alike.
  const year = new Date(text).getUTCFullYear()
  return year >= 1 && year <= 9999
}

const FLAGS: Readonly<Record<string, boolean>> = { true: true, false: false, 1: true, 0: false }

/** `true`, `false`, `1` or `0`, in any case. */
export const flagParameter = () =>
  z
    .string()
    .refine((text) => Object.hasOwn(FLAGS, text.toLowerCase()), { error: 'must be true or false' })
    .transform((text) => FLAGS[text.toLowerCase()] === true)
    .meta({ type: 'boolean' })

/** A whole number in a query. */
export const wholeParameter = (min: number, max: number) => {
  const error = `must be a whole number from ${min} to ${max}`
  const isRight = (text: string) => /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max
  const meta = { type: 'integer', minimum: min, maximum: max, pattern: undefined } as const
  return z.string().refine(isRight, { error }).transform(Number).meta(meta)
}

/** What the log, a terminal and a CSV file may show without harm: no control or invisible characters. */
export const line = (max: number) =>
  z
    .string()
    .transform((text) => text.trim())
    .refine((text) => text.length >= 1 && text.length <= max, { error: `must be 1 to ${max} characters long` })
    .refine((text) => !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(text), { error: 'must have no control characters' })

export const serialNumber = () =>
  z
    .string()
    .refine((text) => parseSerialNumber(text) !== undefined, { error: 'must be a serial number in hexadecimal' })
    .transform((text) => parseSerialNumber(text) as string)

/** Of an administrator. */
export const password = () => z.string().min(1).max(1024)

/** SHA-256 in hexadecimal, perhaps with colons. */
export const fingerprint = () =>
  z
    .string()
    .transform((text) => text.replaceAll(':', '').toLowerCase())
    .refine((text) => /^[0-9a-f]{64}$/.test(text), { error: 'must be a SHA-256 fingerprint in hexadecimal' })
