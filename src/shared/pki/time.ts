/** Validity times (RFC 5280 §4.1.2.5): UTCTime through 2049, GeneralizedTime from 2050, whole seconds, always `Z`. */

import { DerError, type DerReader, TAG } from './der.ts'
import type { DerWriter } from './der-writer.ts'

/** `form` as in the bytes; the lint checks whether it is right for the year. */
export interface Time {
  at: Date
  form: 'UTCTime' | 'GeneralizedTime'
}

/** First year written as GeneralizedTime. */
const GENERALIZED_FROM = 2050

/** The form that RFC 5280 prescribes for this instant. */
export function timeFormOf(at: Date): Time['form'] {
  const year = at.getUTCFullYear()
  return year >= 1950 && year < GENERALIZED_FROM ? 'UTCTime' : 'GeneralizedTime'
}

/**
 * Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`: no fractions, no offsets, only existing dates.
 * @throws DerError
 */
export function readTime(reader: DerReader): Time {
  const start = reader.offset
  const form = reader.peek() === TAG.generalizedTime ? 'GeneralizedTime' : 'UTCTime'
  const text = reader.content(form === 'UTCTime' ? TAG.utcTime : TAG.generalizedTime)
  const yearDigits = form === 'UTCTime' ? 2 : 4
  if (text.length !== yearDigits + 11 || text[text.length - 1] !== 0x5a) {
    throw new DerError(`${form} must be written in whole seconds and end in Z`, start)
  }
  const digits = (from: number, count: number) => readDigits(text, from, count, start)
  const written = digits(0, yearDigits)
  // RFC 5280 §4.1.2.5.1: two-digit years from 50 belong to the twentieth century.
  const year = form === 'GeneralizedTime' ? written : written + (written >= 50 ? 1900 : 2000)
  const field = (index: number) => digits(yearDigits + 2 * index, 2)
  return { at: calendarDate(year, field(0), field(1), field(2), field(3), field(4), start), form }
}

/** Writes an instant in the form for its year, without fractions of a second. @throws RangeError */
export function writeTime(writer: DerWriter, at: Date): void {
  const year = at.getUTCFullYear()
  if (!(year >= 1950 && year <= 9999)) throw new RangeError(`a certificate cannot express ${String(at)}`)
  const date = twoDigits(year % 100) + twoDigits(at.getUTCMonth() + 1) + twoDigits(at.getUTCDate())
  const time = twoDigits(at.getUTCHours()) + twoDigits(at.getUTCMinutes()) + twoDigits(at.getUTCSeconds())
  if (timeFormOf(at) === 'UTCTime') writer.ascii(TAG.utcTime, `${date}${time}Z`)
  else writer.ascii(TAG.generalizedTime, `${twoDigits(Math.floor(year / 100))}${date}${time}Z`)
}

const twoDigits = (value: number): string => (value < 10 ? `0${value}` : `${value}`)

function readDigits(text: Buffer, from: number, count: number, at: number): number {
  let value = 0
  for (let i = from; i < from + count; i++) {
    const digit = text[i]! - 0x30
    if (digit < 0 || digit > 9) throw new DerError('time holds something else than digits', at)
    value = value * 10 + digit
  }
  return value
}

function calendarDate(
  year: number,
  month: number,
  day: number,
  hour: number,
  minute: number,
  second: number,
  at: number,
): Date {
  // Date.UTC turns February 30 into a day of March.
  const exists =
    month >= 1 && month <= 12 && day >= 1 && day <= daysOf(month, year) && hour < 24 && minute < 60 && second < 60
  if (!exists) throw new DerError('time is not a date of the calendar', at)
  const date = new Date(Date.UTC(year, month - 1, day, hour, minute, second))
  // Date.UTC adds 1900 to years below 100. Go writes the year 1 for a missing date.
  if (year < 100) date.setUTCFullYear(year, month - 1, day)
  return date
}

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const

function daysOf(month: number, year: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return month === 2 && isLeap ? 29 : MONTH_DAYS[month - 1]!
}
