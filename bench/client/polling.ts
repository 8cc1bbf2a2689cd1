/** Waits for an authorization or an order (RFC 8555 §7.5.1). Retry-After only shortens a wait, or it would be measured. */

import { setTimeout as sleep } from 'node:timers/promises'
import { retryAfterSeconds } from './acme.ts'
import { Failure } from './failure.ts'
import type { HttpResponse } from './http.ts'

const FIRST_WAIT_MS = 10
const LONGEST_WAIT_MS = 250

/**
 * Reads until `settled` says so; `first` is the reply whose Retry-After bounds the first wait.
 * @throws Failure `timeout`, and whatever `read` throws
 */
export async function pollUntil(
  timeoutMs: number,
  first: HttpResponse,
  read: () => Promise<HttpResponse>,
  settled: (response: HttpResponse) => boolean,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  let previous = first
  for (let waitMs = FIRST_WAIT_MS; performance.now() < deadline; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    await sleep(Math.min(waitMs, (retryAfterSeconds(previous) ?? 1) * 1000))
    previous = await read()
    if (settled(previous)) return
  }
  throw new Failure('timeout', `not settled after ${timeoutMs} ms`)
}
