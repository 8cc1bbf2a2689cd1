/** Work that takes turns by its owner: a flood of one owner delays another one by one piece of work. */

import { AdminError } from '../domain/admin-error.ts'
import { FairQueue } from '../shared/lib/fair-queue.ts'

interface Turn {
  owner: string
  begin(): void
}

interface TurnsOptions {
  /** Pieces at work. */
  atOnce: number
  atOnceOfOne: number
  /** At work or waiting. */
  mostOfOne: number
  /** Names the work in the refusal: "too many requests from this address". */
  what: string
  /** After a piece the turn rests as long as the piece took, which leaves half of the time to others. */
  rests?: true
}

const RETRY_SECONDS = 1
const MOST_REST_MS = 2_000

export class Turns {
  readonly #options: TurnsOptions
  readonly #queue: FairQueue<Turn>
  /** Pieces by owner. */
  readonly #present = new Map<string, number>()

  constructor(options: TurnsOptions) {
    const { atOnce, atOnceOfOne } = options
    this.#options = options
    this.#queue = new FairQueue({
      ownerOf: ({ owner }) => owner,
      targetOf: () => 'all',
      perOwner: atOnceOfOne,
      perTarget: atOnce,
    })
  }

  /** @throws AdminError rate_limited */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const { mostOfOne, what, rests } = this.#options
    const present = this.#present.get(owner) ?? 0
    if (present >= mostOfOne)
      throw new AdminError('rate_limited', `too many ${what} at once; try again`, { retryAfterSeconds: RETRY_SECONDS })
    this.#present.set(owner, present + 1)
    const turn = await this.#turnOf(owner)
    const startedAt = performance.now()
    try {
      return await work()
    } finally {
      this.#leave(owner)
      if (rests) setTimeout(() => this.#end(turn), Math.min(performance.now() - startedAt, MOST_REST_MS)).unref()
      else this.#end(turn)
    }
  }

  #turnOf(owner: string): Promise<Turn> {
    return new Promise((resolve) => {
      const turn: Turn = { owner, begin: () => resolve(turn) }
      this.#queue.push(turn)
      this.#queue.take()?.begin()
    })
  }

  #end(turn: Turn): void {
    this.#queue.giveBack(turn)
    this.#queue.take()?.begin()
  }

  #leave(owner: string): void {
    const left = (this.#present.get(owner) ?? 1) - 1
    if (left === 0) this.#present.delete(owner)
    else this.#present.set(owner, left)
  }
}
