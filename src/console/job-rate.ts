/** How fast a bulk revocation goes, measured between the replies that the page has seen, and when it may end. */

import { useRef } from 'preact/hooks'
import { countText, spanText } from './format.ts'

interface Progress {
  total_matched: number
  revoked: number
  errors_total: number
  status: string
}

interface Seen {
  at: number
  done: number
}

/** A rate of the last second alone would jump. */
const SPAN_MS = 20_000

/** @param at when the reply came, in milliseconds @returns undefined until two replies differ, and at the end */
export function useJobRate(job: Progress, at: number | undefined): string | undefined {
  const seen = useRef<Seen[]>([])
  if (at === undefined || job.status !== 'revoking') return undefined
  const done = job.revoked + job.errors_total
  if (seen.current.at(-1)?.at !== at)
    seen.current = [...seen.current.filter((one) => one.at > at - SPAN_MS), { at, done }]
  const [first] = seen.current
  return first && rateText(first, { at, done }, job.total_matched)
}

/** `1,200 a second; about 3 minutes left`. Pure. */
export function rateText(first: Seen, last: Seen, total: number): string | undefined {
  const perSecond = ((last.done - first.done) * 1000) / (last.at - first.at)
  if (!Number.isFinite(perSecond) || perSecond <= 0) return undefined
  const left = spanText((total - last.done) / perSecond)
  return `${countText(Math.max(1, Math.round(perSecond)))} a second; ${left === undefined ? 'less than a second' : `about ${left}`} left`
}
