/** Retry-After of an answer (RFC 9110 §10.2.3): seconds, or a date. */

/** @returns milliseconds from now; undefined without a valid header */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs)
}
