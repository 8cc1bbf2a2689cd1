/** An episode of overload ends after two seconds without a refusal; the log has two lines of it. */

export type ShedReason = 'delay' | 'heavy_address'

export interface EpisodeFacts {
  /** Of the last tick. */
  delayMs: number
  inFlight: number
}

export interface EpisodeEvents {
  begun(facts: EpisodeFacts): void
  ended(facts: { seconds: number; turnedAway: number }): void
  /** Once a tick, with the refusals of that tick. */
  turnedAway(reason: ShedReason, count: number): void
}

/** Joins overload that stops and resumes into one episode. */
const EPISODE_END_MS = 2000

export class OverloadEpisode {
  readonly #events: EpisodeEvents
  /** Refusals of this tick. */
  readonly #refused: Record<ShedReason, number> = { delay: 0, heavy_address: 0 }
  #episode: { since: number; refusedAt: number; turnedAway: number } | undefined

  constructor(events: EpisodeEvents) {
    this.#events = events
  }

  refused(reason: ShedReason): void {
    this.#refused[reason]++
  }

  refusedInTick(reason: ShedReason): number {
    return this.#refused[reason]
  }

  ageMs(now: number): number {
    return this.#episode ? now - this.#episode.since : 0
  }

  tick(now: number, facts: () => EpisodeFacts): void {
    const count = this.#refused.delay + this.#refused.heavy_address
    if (count > 0) {
      if (!this.#episode) {
        this.#episode = { since: now, refusedAt: now, turnedAway: 0 }
        this.#events.begun(facts())
      }
      this.#episode.refusedAt = now
      this.#episode.turnedAway += count
      this.#reportRefusals()
    } else if (this.#episode && now - this.#episode.refusedAt > EPISODE_END_MS) {
      const { since, refusedAt, turnedAway } = this.#episode
      this.#episode = undefined
      this.#events.ended({ seconds: Math.round((refusedAt - since) / 100) / 10, turnedAway })
    }
  }

  #reportRefusals(): void {
    for (const reason of ['delay', 'heavy_address'] as const) {
      if (this.#refused[reason] > 0) this.#events.turnedAway(reason, this.#refused[reason])
      this.#refused[reason] = 0
    }
  }
}
