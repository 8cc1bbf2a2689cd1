/**
 * Requests that wait for a validation of this thread: challenge responses briefly, and polls
 * (RFC 8555 §7.5.1) for longer.
 *
 * Most validations take some dozen milliseconds, but Retry-After is seconds. So a poll is answered
 * when the attempt has ended, or after a second with the current state. The supervisor reports the
 * end (`AttemptEnded`); if that message is lost, the poll takes the full second.
 */

import { LruMap } from '../shared/lib/caching.ts'
import { startTimeLimit } from '../shared/lib/time-limit.ts'

/** `void`: nothing will be recorded, because the claim was lost or the authorization decided. */
export type AttemptEnd = 'recorded' | 'void'

export interface ValidationWaits {
  /** Called when an attempt is handed over. */
  began(authorizationId: string, accountId: string): void
  over(authorizationId: string, end: AttemptEnd): void
  /**
   * @param id of the authorization or one of its challenges
   * @returns undefined if there is no attempt; resolves to undefined if it still runs at `maxMs`
   */
  untilOver(id: string, accountId: string, maxMs?: number): Promise<AttemptEnd | undefined> | undefined
  /** Ends all waits, now and later. */
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

/** Longer than a usual validation, and short enough for a client not to give up. */
const LONGEST_WAIT_MS = 1_000
/** After this silence the attempt is given up: it was lost, or another instance has taken over. */
const SILENT_MS = 60_000
/** Limit of remembered attempts, and of waiting requests. */
const CAPACITY = 4_096

/** Ids of an authorization and its challenges differ only in the last digit. */
const keyOf = (id: string) => id.slice(0, -1)

/** @param events exclude waiting requests from the work under way */
export function createValidationWaits(events: WaitEvents): ValidationWaits {
  const attempts = new LruMap<string, Attempt>(CAPACITY)
  const waits = new Set<(end?: AttemptEnd) => void>()
  let isReleased = false

  const isSilent = ({ since }: Attempt) => performance.now() - since > SILENT_MS

  return {
    began(authorizationId, accountId) {
      const key = keyOf(authorizationId)
      // A repeated hand-over waits for the same end.
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
