/** What of a CA's advice about renewal is passed on (RFC 9773 §4), whoever the CA is. */

const SHORTEST_RETRY_MS = 60_000
const LONGEST_RETRY_MS = 86_400_000
const MAX_URL_LENGTH = 2048

/** Every certificate is asked for, so none too often. */
export function renewalRetryMs(askedMs: number): number {
  return Math.min(Math.max(askedMs, SHORTEST_RETRY_MS), LONGEST_RETRY_MS)
}

/** It is shown to clients, so only what a browser opens without danger. */
export function explanationOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_URL_LENGTH || !URL.canParse(value)) return undefined
  return new URL(value).protocol === 'https:' ? value : undefined
}
