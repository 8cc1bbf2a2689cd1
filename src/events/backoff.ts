/** Exponential backoff of consumers outside: growing pauses, for four days. */

import { setTimeout as sleep } from 'node:timers/promises'
import { limitedSignal } from '../shared/lib/time-limit.ts'
import type { ExternalConsumer } from './consumer.ts'

const FIRST_DELAY_MS = 1_000
const MAX_DELAY_MS = 60_000
/** A receiver may be away for a long weekend. */
const MAX_FAILURES = (4 * 86_400_000) / MAX_DELAY_MS
const MAX_RETRY_AFTER_MS = 3_600_000
/** A failed attempt keeps its place for this long, so that an absent receiver costs few statements. */
const AWAY_PAUSE_MS = 5_000

/** The receiver asks for a pause (RFC 9110 §10.2.3). */
export class ReceiverBusy extends Error {
  readonly retryAfterMs: number

  /** @param retryAfter the header's value; only seconds count */
  constructor(message: string, retryAfter: string | null) {
    super(message)
    const seconds = Number(retryAfter ?? 0)
    this.retryAfterMs = Number.isFinite(seconds) ? Math.min(Math.max(0, seconds) * 1000, MAX_RETRY_AFTER_MS) : 0
  }
}

/** The receiver does not take what it was given; its operator may change that. */
export class Refused extends Error {}

/** A repetition would end alike: the event becomes a dead letter. */
export class RefusedForGood extends Refused {}

/** @returns undefined after four days of failures, or when the receiver has refused for good */
export function backoffDelayMs(failures: number, error: unknown): number | undefined {
  if (failures >= MAX_FAILURES || error instanceof RefusedForGood) return undefined
  const backoff = Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS)
  return error instanceof ReceiverBusy ? Math.max(backoff, error.retryAfterMs) : backoff
}

type Backed = Omit<ExternalConsumer, 'retryDelayMs' | 'isRefusal'>

export function withBackoff({ deliver, timeoutMs, ...consumer }: Backed): ExternalConsumer {
  return {
    ...consumer,
    timeoutMs: timeoutMs + AWAY_PAUSE_MS,
    retryDelayMs: backoffDelayMs,
    isRefusal: (error) => error instanceof Refused,
    async deliver(events, signal) {
      const limit = limitedSignal(timeoutMs, signal)
      try {
        await deliver(events, limit.signal)
      } catch (error) {
        // Only the signal rejects the sleep, which then ends early.
        if (!(error instanceof RefusedForGood)) await sleep(AWAY_PAUSE_MS, undefined, { signal }).catch(() => undefined)
        throw error
      } finally {
        limit.clear()
      }
    },
  }
}
