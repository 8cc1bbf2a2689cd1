/**
 * Who waits for the validation that this thread has handed over: the response to the challenge itself for a moment, so that it says
 * how the attempt has ended, and polls (RFC 8555 §7.5.1) for longer.
 *
 * Most validations take some dozen milliseconds, and a client that is told `pending` comes back after Retry-After, which is
 * seconds. So the poll of an authorization or a challenge is answered when the attempt is over, or a second later as things
 * stand. The supervisor says when it is over (`AttemptEnded`); a lost message costs the wait.
 */

import { LruMap } from '../shared/lib/lru.ts'
import { startTimeLimit } from '../shared/lib/time-limit.ts'

/** The attempt has been recorded, or nothing will be: the claim is somebody else's, or the authorization decided. */
export type AttemptEnd = 'recorded' | 'void'

export interface ValidationWaits {
  /** An attempt has been handed over. */
  began(authorizationId: string, accountId: string): void
  over(authorizationId: string, end: AttemptEnd): void
  /**
   * @param id of the authorization or one of its challenges
   * @returns undefined when there is nothing to wait for; resolves to undefined when the attempt is still under way then
   */
  untilOver(id: string, accountId: string, maxMs?: number): Promise<AttemptEnd | undefined> | undefined
  /** Nobody waits any more. */
  release(): void
}

export interface WaitEvents {
  paused(): void
  resumed(): void
}

interface Attempt {
  accountId: string
  /** `performance.now()` */
  since: number
  waits: Set<(end?: AttemptEnd) => void>
}

/** Longer than a validation takes where all is well, and shorter than what a client could take for a server that hangs. */
const LONGEST_WAIT_MS = 1_000
/** Of an attempt without news for so long there will be none: the hand-over got lost, or another instance has taken over. */
const SILENT_MS = 60_000
/** Of attempts that are remembered, and of requests that wait. */
const CAPACITY = 4_096

/** An id without its last digit, by which the challenges of an authorization differ from it. */
const keyOf = (id: string) => id.slice(0, -1)

/** @param events a request that waits is not work under way */
export function createValidationWaits(events: WaitEvents): ValidationWaits {
  const attempts = new LruMap<string, Attempt>(CAPACITY)
  const waits = new Set<(end?: AttemptEnd) => void>()
  let isReleased = false

  const isSilent = ({ since }: Attempt) => performance.now() - since > SILENT_MS

  return {
    began(authorizationId, accountId) {
      const key = keyOf(authorizationId)
      // Handed over again while it runs: the same end is awaited.
      const known = attempts.get(key)
      if (!known || isSilent(known)) attempts.set(key, { accountId, since: performance.now(), waits: new Set() })
    },

    over(authorizationId, end) {
      const key = keyOf(authorizationId)
      const attempt = attempts.get(key)
      if (!attempt) return
      attempts.delete(key)
      for (const resume of attempt.waits) resume(end)
    },

    untilOver(id, accountId, maxMs = LONGEST_WAIT_MS) {
      const attempt = attempts.get(keyOf(id))
      if (!attempt || attempt.accountId !== accountId || isSilent(attempt)) return undefined
      if (isReleased || waits.size >= CAPACITY) return undefined
      events.paused()
      return new Promise((resolve) => {
        const resume = (end?: AttemptEnd) => {
          cancel()
          waits.delete(resume)
          attempt.waits.delete(resume)
          events.resumed()
          resolve(end)
        }
        const cancel = startTimeLimit(maxMs, resume)
        waits.add(resume)
        attempt.waits.add(resume)
      })
    },

    release() {
      isReleased = true
      for (const resume of waits) resume()
    },
  }
}
