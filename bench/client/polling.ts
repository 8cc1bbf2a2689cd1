/**
 * Waiting for an authorization or an order to leave its transient state (RFC 8555 §7.4, §7.5.1).
 *
 * A client that slept the whole seconds of Retry-After would measure its own sleep. So Retry-After is honoured up to
 * the longest interval of `PollSettings`, and to the letter only when the user asks for it.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { retryAfterSeconds } from './acme.ts'
import { Failure } from './failure.ts'
import type { HttpResponse } from './response-parser.ts'

export interface PollSettings {
  /** Wait before the first poll; doubled after each. */
  intervalMs: number
  maxIntervalMs: number
  obeyRetryAfter: boolean
  /** After this long in a transient state the operation has failed. */
  timeoutMs: number
}

/** @returns how long to wait before poll number `attempt`, counted from 0. */
export function pollDelayMs(settings: PollSettings, attempt: number, retryAfter: number | undefined): number {
  const backoff = Math.min(settings.intervalMs * 2 ** attempt, settings.maxIntervalMs)
  if (retryAfter === undefined) return backoff
  return settings.obeyRetryAfter ? retryAfter * 1000 : Math.min(backoff, retryAfter * 1000)
}

/**
 * Reads until `settled` says so; `first` is the reply whose Retry-After governs the first wait.
 * @throws Failure `timeout`, and whatever `read` throws.
 */
export async function pollUntil(
  settings: PollSettings,
  what: string,
  first: HttpResponse,
  read: () => Promise<HttpResponse>,
  settled: (response: HttpResponse) => boolean,
): Promise<void> {
  const deadline = performance.now() + settings.timeoutMs
  let previous = first
  for (let attempt = 0; performance.now() < deadline; attempt++) {
    await sleep(pollDelayMs(settings, attempt, retryAfterSeconds(previous)))
    previous = await read()
    if (settled(previous)) return
  }
  throw new Failure('timeout', `${what} still not settled after ${settings.timeoutMs} ms`)
}
