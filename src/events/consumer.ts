/** The two ways to take events, what both have in common, and how receivers outside are tried again. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { CommonQueryMethods } from 'slonik'
import type { EventKind, OccurredEvent } from '../domain/event.ts'
import { limitedSignal } from '../shared/lib/time-limit.ts'

interface Consumer {
  /** Every instance with this consumer uses it. */
  name: string
  kinds: readonly EventKind[]
  /** The part of `kinds` that is wanted only about accounts with a contact. */
  holderKinds?: readonly EventKind[]
}

/**
 * Writes to the database alone: its work and the end of the delivery are one transaction, so each
 * event counts exactly once.
 */
export interface DatabaseConsumer extends Consumer {
  take(events: readonly OccurredEvent[], tx: CommonQueryMethods): Promise<void>
}

/** The events of one attempt: one, unless the consumer takes several. */
export type Attempted = readonly [OccurredEvent, ...OccurredEvent[]]

/** Reaches out: at least once, and at most `concurrency` at the same time. */
export interface ExternalConsumer extends Consumer {
  concurrency: number
  /** Most events of one attempt; one when absent. */
  most?: number
  /** The time of one attempt; `signal` ends it then. */
  timeoutMs: number
  /** Milliseconds before the next attempt; undefined makes it a dead letter. @param failures 1 and up */
  retryDelayMs(failures: number, error: unknown): number | undefined
  /** The attempt succeeds or fails for all events. */
  deliver(events: Attempted, signal: AbortSignal): Promise<void>
  /** Whether the receiver refuses what it was given; of several events, each is sent alone then. */
  isRefusal?(error: unknown): boolean
  /** Tells it all that it will be given, so that it can read for all of them at once. */
  expect?(events: readonly OccurredEvent[]): void
}

export interface ConsumerEvents {
  delivered(consumer: string, event: OccurredEvent): void
  postponed(consumer: string, event: OccurredEvent, error: unknown): void
  buried(consumer: string, event: OccurredEvent, error: unknown): void
  /** The payload is not as `EVENTS` has it; it is delivered as it is. */
  misfit(consumer: string, event: OccurredEvent): void
  /** The database failed, not the consumer. */
  failed(consumer: string, error: unknown): void
}

/** Receivers outside wait for these. */
export const LOOK_MS = { shortest: 500, longest: 500 }

/**
 * No receiver waits for consumers in the database, and a larger batch is cheaper. While
 * nothing comes, each pause is twice the one before: a look costs a transaction.
 */
export const DATABASE_LOOK_MS = { shortest: 1_000, longest: 4_000 }

/** Registrations are renewed so that a consumer in use is not taken for an abandoned one. */
export const REGISTRATION_MS = 3_600_000

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
