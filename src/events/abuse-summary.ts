/** Counts what anybody can cause without an account. Each refusal has no event: a stranger could fill the database. */

import type { NewEvent } from '../domain/event.ts'
import type { EventWriter } from './event-writer.ts'

/** By the kind of refusal. Plain data. */
export type RefusalCounts = Readonly<Record<string, number>>

export class RefusalTally {
  #counts: Record<string, number> = {}

  add(kind: string, count = 1): void {
    this.#counts[kind] = (this.#counts[kind] ?? 0) + count
  }

  /** @returns undefined when nothing was counted since the last call */
  take(): RefusalCounts | undefined {
    const counts = this.#counts
    this.#counts = {}
    return Object.keys(counts).length > 0 ? counts : undefined
  }
}

const MINUTE_MS = 60_000

/** Collects the counts of all front threads: one event a kind and minute. */
export class AbuseSummary {
  readonly #tally = new RefusalTally()
  readonly #writer: Pick<EventWriter, 'write'>
  readonly #instanceId: number
  readonly #timer: NodeJS.Timeout
  #since = new Date()

  constructor(writer: Pick<EventWriter, 'write'>, instanceId: number, intervalMs = MINUTE_MS) {
    this.#writer = writer
    this.#instanceId = instanceId
    this.#timer = setInterval(() => this.#summarize(), intervalMs).unref()
  }

  add(counts: RefusalCounts): void {
    for (const [kind, count] of Object.entries(counts)) this.#tally.add(kind, count)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#summarize()
  }

  #summarize(): void {
    const [from, until] = [this.#since, new Date()]
    this.#since = until
    for (const [refusal, count] of Object.entries(this.#tally.take() ?? {}))
      this.#writer.write(summaryOf({ refusal, count, from, until, instanceId: this.#instanceId }))
  }
}

function summaryOf(counted: { refusal: string; count: number; from: Date; until: Date; instanceId: number }): NewEvent {
  const { refusal, count, from, until, instanceId } = counted
  return {
    kind: 'abuse.summary',
    subject: `${instanceId} ${refusal}`,
    accountId: undefined,
    data: { refusal, count, from: from.toISOString(), until: until.toISOString(), instance: instanceId },
  }
}
