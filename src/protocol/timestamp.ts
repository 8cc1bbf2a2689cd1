/** Timestamps on the wire (RFC 3339): UTC, `Z`, whole seconds. */

export function renderTimestamp(at: Date): string {
  return `${at.toISOString().slice(0, 19)}Z`
}

const TIMESTAMP =
  /^(\d{4}-\d{2}-(\d{2}))[Tt](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** Undefined for anything but an RFC 3339 date-time with its offset; the fraction of a second is dropped. */
export function parseTimestamp(text: string): Date | undefined {
  const [, date, day] = TIMESTAMP.exec(text) ?? []
  // Date.parse lets 30 February pass as 2 March.
  if (date === undefined || new Date(date).getUTCDate() !== Number(day)) return undefined
  const ms = Date.parse(text.toUpperCase())
  return Number.isNaN(ms) ? undefined : new Date(Math.floor(ms / 1000) * 1000)
}
