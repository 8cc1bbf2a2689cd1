/**
 * A poll waits for the validation that it asks about (RFC 8555 §7.5.1).
 *
 * Most validations take some dozen milliseconds, and a client that is told `pending` comes back after Retry-After, which is
 * seconds. So the poll of an authorization or a challenge whose attempt this thread has handed over is answered when the attempt is
 * recorded, or a second later as it stands. That the record is there is seen in the counters by which threads announce what
 * they change (lib/change-counters.ts): one count before it is written, one after.
 */

import type { ChangeCounters } from '../lib/change-counters.ts'
import { LruMap } from '../lib/lru.ts'

export interface ValidationWaits {
  /** An attempt has been handed over. */
  began(authorizationId: string, accountId: string): void
  /** @param id of the authorization or one of its challenges. @returns undefined when there is nothing to wait for */
  ended(id: string, accountId: string): Promise<void> | undefined
  /** Nobody waits any more. */
  release(): void
}

export interface WaitEvents {
  paused(): void
  resumed(): void
}

interface Attempt {
  id: string
  accountId: string
  /** The count when its record has been written. */
  recordedAt: number
}

interface Wait {
  attempt: Attempt
  /** `performance.now()` */
  deadline: number
  resume(): void
}

/** Longer than a validation takes where all is well, and shorter than what a client could take for a server that hangs. */
const LONGEST_WAIT_MS = 1_000
const LOOK_MS = 5
/** Of attempts that are remembered, and of polls that wait. */
const CAPACITY = 4_096

/** An id without its last digit, by which the challenges of an authorization differ from it. */
const keyOf = (id: string) => id.slice(0, -1)

/** @param events a request that waits is not work under way */
export function createValidationWaits(changes: ChangeCounters, events: WaitEvents): ValidationWaits {
  const attempts = new LruMap<string, Attempt>(CAPACITY)
  let waits: Wait[] = []
  let looking: NodeJS.Timeout | undefined
  let isReleased = false

  // Counters wrap around.
  const isRecorded = ({ id, recordedAt }: Attempt) => ((changes.count(id) - recordedAt) | 0) >= 0

  function look(): void {
    const now = performance.now()
    const over: Wait[] = []
    const left: Wait[] = []
    for (const wait of waits) {
      const isOver = isReleased || wait.deadline <= now || isRecorded(wait.attempt)
      if (isOver) over.push(wait)
      else left.push(wait)
    }
    waits = left
    looking = left.length > 0 ? setTimeout(look, LOOK_MS) : undefined
    for (const { resume } of over) resume()
  }

  return {
    began(id, accountId) {
      const key = keyOf(id)
      const known = attempts.get(key)
      // Handed over again while it runs: the same record is awaited.
      if (!known || isRecorded(known)) attempts.set(key, { id, accountId, recordedAt: (changes.count(id) + 2) | 0 })
    },

    ended(id, accountId) {
      const attempt = attempts.get(keyOf(id))
      if (!attempt || attempt.accountId !== accountId || isReleased || waits.length >= CAPACITY) return undefined
      if (isRecorded(attempt)) {
        attempts.delete(keyOf(id))
        return undefined
      }
      events.paused()
      return new Promise((resolve) => {
        const resume = () => {
          events.resumed()
          resolve()
        }
        waits.push({ attempt, deadline: performance.now() + LONGEST_WAIT_MS, resume })
        looking ??= setTimeout(look, LOOK_MS)
      })
    },

    release() {
      isReleased = true
      clearTimeout(looking)
      look()
    },
  }
}
