/** Times, days, counts, files and the status of a certificate as text. Pure. */

const UNITS = [
  ['year', 31_556_952],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/** `local` is the zone of the browser. */
export const ZONES = ['utc', 'local'] as const
export type Zone = (typeof ZONES)[number]

/** `2026-11-23 08:39`, or with seconds. */
export function instantIn(zone: Zone, at: string | number | Date, seconds = false): string {
  const date = new Date(at)
  const offsetMs = zone === 'utc' ? 0 : date.getTimezoneOffset() * 60_000
  const text = new Date(date.getTime() - offsetMs).toISOString().replace('T', ' ')
  return text.slice(0, seconds ? 19 : 16)
}

/** `in 12 days`, `3 hours ago`. */
export function relativeText(at: string | number | Date, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000
  const span = spanText(Math.abs(seconds))
  if (span === undefined) return 'now'
  return seconds > 0 ? `in ${span}` : `${span} ago`
}

/** `1 account`, `2 accounts`. @param count as `countText` writes it */
export const plural = (count: string, one: string, many = `${one}s`) => `${count} ${count === '1' ? one : many}`

/** `1 account`, `2,000 accounts`. */
export const counted = (count: number, one: string, many?: string) => plural(countText(count), one, many)

/** Counts in the largest unit of which there is one. @returns undefined below a second */
export function spanText(seconds: number): string | undefined {
  // A year and a half says more in days.
  const unit = UNITS.find(([name, length]) => seconds >= (name === 'year' ? 2 * length : length))
  if (!unit) return undefined
  const count = Math.floor(seconds / unit[1])
  return plural(String(count), unit[0])
}

/** `1:58`. */
export function clockText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

/** `12,345`; an estimate is `about 12,000`, since more digits of it would say nothing. */
export const countText = (count: number, isEstimate = false): string =>
  isEstimate && count > 0 ? `about ${Number(count.toPrecision(2)).toLocaleString('en')}` : count.toLocaleString('en')

/**
 * RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe. What some of them split at is
 * quoted, so that no formula begins inside a cell.
 */
export function csvOf(rows: readonly (readonly (string | number | null | undefined)[])[]): string {
  const cell = (value: string | number | null | undefined) => {
    const text = String(value ?? '')
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text
    return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
  }
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('')
}

/** A day of the calendar: `Date` takes 31 February for one in March. */
export function isDay(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false
  const at = Date.parse(text)
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(text)
}

/** A date without a zone is one of the browser's (ECMA-262, Date Time String Format). */
const suffixOf = (zone: Zone) => (zone === 'utc' ? 'Z' : '')

/** The last millisecond of a day. Another time, or a day that does not exist, stays as it is. */
export function endOfDayIn(zone: Zone, text: string): string {
  return isDay(text) ? new Date(`${text}T23:59:59.999${suffixOf(zone)}`).toISOString() : text
}

/**
 * Makes days of a query whole days. `…_before` is exclusive, so its day becomes the next midnight. `until` becomes the
 * end of its day, any other day its beginning.
 */
export const wholeDaysIn = <Q extends Readonly<Record<string, string>>>(zone: Zone, query: Q): Q =>
  Object.fromEntries(
    Object.entries(query).map(([name, value]) => {
      // The service refuses a day that does not exist.
      if (!isDay(value)) return [name, value]
      const end = endOfDayIn(zone, value)
      if (name.endsWith('_before')) return [name, new Date(Date.parse(end) + 1).toISOString()]
      return [name, name === 'until' ? end : new Date(`${value}T00:00:00.000${suffixOf(zone)}`).toISOString()]
    }),
  ) as Q

const partsOf = (text: string, separator: RegExp): string[] =>
  text
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** One text a line; undefined for none. */
export function linesOf(text: string): string[] | undefined {
  const lines = partsOf(text, /\n/)
  return lines.length > 0 ? lines : undefined
}

/** Tags with white space or commas between them. */
export const tagsOf = (typed: string): string[] => partsOf(typed, /[\s,]+/)

export const base64url = (bytes: ArrayBuffer | Uint8Array<ArrayBuffer>): string =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

/** The first certificate of a file. */
export function derOf(pem: string): Uint8Array<ArrayBuffer> {
  const [, base64 = ''] = /-----BEGIN [^-]+-----([^-]+)-----END/.exec(pem) ?? []
  return Uint8Array.from(atob(base64.replaceAll(/\s/g, '')), (character) => character.charCodeAt(0))
}

interface Dated {
  revoked_at: string | null
  not_after: string
  renewal: { window_start: string; window_end: string; renewed: boolean | null } | null
}

interface CertificateState {
  text: string
  tone: 'good' | 'warn' | 'bad' | 'plain'
}

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS
/** The part of a window that ends with the certificate, after which its end is what counts. */
const LATE_SHARE = 0.75

/**
 * The status in words, from the renewal window (RFC 9773). `Overdue`: the window is past. A window that ends with the certificate is never past, and its last quarter
 * says how long is left.
 */
export function certificateState({ revoked_at, not_after, renewal }: Dated, now: number): CertificateState {
  if (revoked_at !== null) return { text: 'Revoked', tone: 'bad' }
  const end = Date.parse(not_after)
  if (end <= now) return { text: 'Expired', tone: 'plain' }
  if (!renewal || renewal.renewed) return { text: renewal ? 'Renewed' : 'Active', tone: 'good' }
  const [from, until] = [Date.parse(renewal.window_start), Date.parse(renewal.window_end)]
  if (now < from) return { text: 'Active', tone: 'good' }
  if (now >= until) return { text: 'Overdue', tone: 'bad' }
  const isLate = until >= end - HOUR_MS && now >= from + LATE_SHARE * (until - from)
  return isLate ? { text: `Expires in ${timeLeft(end - now)}`, tone: 'bad' } : { text: 'Renewal due', tone: 'warn' }
}

/** Counts whole days, and below two days whole hours. */
export function timeLeft(ms: number): string {
  if (ms < HOUR_MS) return 'less than an hour'
  const [count, unit] = ms < 2 * DAY_MS ? [ms / HOUR_MS, 'hour'] : [ms / DAY_MS, 'day']
  const whole = Math.floor(count)
  return `${whole} ${unit}${whole === 1 ? '' : 's'}`
}
