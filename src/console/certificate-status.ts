/** The status of a certificate in words, from its renewal window (RFC 9773). Pure. */

interface Dated {
  revoked_at: string | null
  not_after: string
  renewal: { window_start: string; window_end: string; renewed: boolean | null } | null
}

export interface CertificateState {
  text: string
  tone: 'good' | 'warn' | 'bad' | 'plain'
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The part of a window that ends with the certificate, after which its end is what counts. */
const LATE_SHARE = 0.75

/** `Overdue`: the window is past. A window that ends with the certificate is never past, and its last quarter says how long is left. */
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

/** In whole days, below two days in whole hours. */
export function timeLeft(ms: number): string {
  if (ms < HOUR_MS) return 'less than an hour'
  const [count, unit] = ms < 2 * DAY_MS ? [ms / HOUR_MS, 'hour'] : [ms / DAY_MS, 'day']
  const whole = Math.floor(count)
  return `${whole} ${unit}${whole === 1 ? '' : 's'}`
}
