/** Timestamps on the wire (RFC 3339): UTC, `Z`, whole seconds. */

const TWO_DIGITS = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'))
const DAY_SECONDS = 86_400

/** The last rendered day and its text up to the `T`: timestamps of one answer mostly share a day. */
let lastDay = Number.NaN
let lastDayText = ''

/** Takes a ninth of the time of `toISOString`; every object of the protocol has timestamps. */
export function renderTimestamp(at: Date): string {
  const seconds = Math.floor(at.getTime() / 1000)
  const day = Math.floor(seconds / DAY_SECONDS)
  if (day !== lastDay) {
    lastDayText = new Date(day * DAY_SECONDS * 1000).toISOString().slice(0, -13)
    lastDay = day
  }
  const ofDay = seconds - day * DAY_SECONDS
  const [hour, minute] = [Math.floor(ofDay / 3600), Math.floor(ofDay / 60) % 60]
  return `${lastDayText}${TWO_DIGITS[hour]}:${TWO_DIGITS[minute]}:${TWO_DIGITS[ofDay % 60]}Z`
}

const TIMESTAMP =
  /^(\d{4}-\d{2}-(\d{2}))[Tt](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** Undefined unless the text is an RFC 3339 date-time with offset. Fractions of a second are dropped. */
export function parseTimestamp(text: string): Date | undefined {
  const [, date, day] = TIMESTAMP.exec(text) ?? []
  // Date.parse turns 30 February into 2 March.
  if (date === undefined || new Date(date).getUTCDate() !== Number(day)) return undefined
  const ms = Date.parse(text.toUpperCase())
  return Number.isNaN(ms) ? undefined : new Date(Math.floor(ms / 1000) * 1000)
}
