/** Times, spans and numbers as text. Times are in UTC, as in logs and mails. */

const UNITS = [
  ['year', 31_556_952],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/** `2026-11-23 08:39`, or with seconds. */
export function instantText(at: string | number | Date, seconds = false): string {
  const text = new Date(at).toISOString().replace('T', ' ')
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

/** In the largest unit of which there is one. @returns undefined below a second */
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

/** RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvOf(rows: readonly (readonly (string | number | null | undefined)[])[]): string {
  const cell = (value: string | number | null | undefined) => {
    const text = String(value ?? '')
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
  }
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('')
}

/** Gives a file to the person at the browser. */
export function saveFile(name: string, type: string, content: string | Uint8Array<ArrayBuffer>): void {
  const url = URL.createObjectURL(new Blob([content], { type }))
  const link = document.createElement('a')
  Object.assign(link, { href: url, download: name })
  link.click()
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
