/** The nonces in hand (RFC 8555 §6.5): every reply feeds them, every request takes one. */

export class NoncePool {
  readonly #nonces: string[] = []
  readonly #limit: number

  /** @param limit How many to keep; more than requests can be under way would only grow stale. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** An empty string (a reply without a nonce) is ignored. */
  put(nonce: string): void {
    if (nonce === '') return
    if (this.#nonces.length >= this.#limit) this.#nonces.shift()
    this.#nonces.push(nonce)
  }

  /** The freshest, because servers forget the oldest first; undefined when a new one must be fetched. */
  take(): string | undefined {
    return this.#nonces.pop()
  }
}
