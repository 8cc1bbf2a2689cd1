/** The two ways to take events, and what both have in common. */

import type { CommonQueryMethods } from 'slonik'
import type { EventKind, OccurredEvent } from '../domain/event.ts'

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
