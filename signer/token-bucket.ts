/** A rate limit with a burst of one second, as one number (GCRA). */

export class TokenBucket {
  readonly #intervalMs: number
  /** When the bucket will be full again, in the time of `performance.now()`. */
  #fullAt = 0

  constructor(perSecond: number) {
    this.#intervalMs = 1000 / perSecond
  }

  /** Takes one token if there is one. */
  take(now: number): boolean {
    const fullAt = Math.max(this.#fullAt, now) + this.#intervalMs
    // A rate below one per second still allows a burst of one token.
    if (fullAt - now > Math.max(1000, this.#intervalMs)) return false
    this.#fullAt = fullAt
    return true
  }
}
