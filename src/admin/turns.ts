/**
 * Work for callers that are not known yet. Addresses take turns, so a stranger delays an administrator at another
 * address by one piece of work, however many requests he sends.
 */

import { AdminError } from '../domain/admin-error.ts'
import { countedAddress } from '../domain/rate-limit.ts'
import { FairQueue } from '../shared/lib/fair-queue.ts'

interface Turn {
  address: string
  begin(): void
}

/** As many passwords may wait for their hash (`services/admin/passwords.ts`). */
const MOST_AT_ONCE = 16
const MOST_AT_ONCE_OF_ONE = 4
/** At work or waiting: a console asks for ten things at once, a hundred are a flood. */
const MOST_OF_ONE = 64
const RETRY_SECONDS = 1

export class Turns {
  readonly #queue = new FairQueue<Turn>({
    ownerOf: ({ address }) => address,
    targetOf: () => 'all',
    perOwner: MOST_AT_ONCE_OF_ONE,
    perTarget: MOST_AT_ONCE,
  })
  /** Requests by address. */
  readonly #present = new Map<string, number>()

  /** @throws AdminError rate_limited */
  async run<T>(peer: string, work: () => Promise<T>): Promise<T> {
    const address = countedAddress(peer)
    const present = this.#present.get(address) ?? 0
    if (present >= MOST_OF_ONE)
      throw new AdminError('rate_limited', 'too many requests from this address at once; try again', {
        retryAfterSeconds: RETRY_SECONDS,
      })
    this.#present.set(address, present + 1)
    const turn = await this.#turnOf(address)
    try {
      return await work()
    } finally {
      this.#queue.giveBack(turn)
      this.#leave(address)
      this.#queue.take()?.begin()
    }
  }

  #turnOf(address: string): Promise<Turn> {
    return new Promise((resolve) => {
      const turn: Turn = { address, begin: () => resolve(turn) }
      this.#queue.push(turn)
      this.#queue.take()?.begin()
    })
  }

  #leave(address: string): void {
    const left = (this.#present.get(address) ?? 1) - 1
    if (left === 0) this.#present.delete(address)
    else this.#present.set(address, left)
  }
}
