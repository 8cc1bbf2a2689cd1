/**
 * Circuit breaker: several failures in a row stop all calls for a while; then one call tests again.
 *
 * | state     | a call           | it succeeds | it fails                    |
 * | --------- | ---------------- | ----------- | --------------------------- |
 * | closed    | is made          | closed      | open, after `failures` of them in a row |
 * | open      | is refused       |             |                             |
 * | half-open | one is made, the others are refused | closed | open     |
 *
 * Pure, apart from the clock it is given.
 */

export interface CircuitBreakerSettings {
  /** Failures in a row that open it. */
  failures: number
  /** How long it stays open. */
  recoveryMs: number
}

export interface CircuitBreaker {
  /** Milliseconds until a call makes sense; 0 when one may be made now. Changes nothing. */
  retryAfterMs(): number
  /** Whether a call may be made. After true, the caller must report `succeeded`, `failed` or `unknown`. */
  admit(): boolean
  succeeded(): void
  failed(): void
  /** The call did not reach the other side, so another one may test it. */
  unknown(): void
}

interface CircuitBreakerEvents {
  opened(): void
  closed(): void
}

/** @param nowMs a clock that does not jump */
export function createCircuitBreaker(
  { failures, recoveryMs }: CircuitBreakerSettings,
  events: CircuitBreakerEvents,
  nowMs: () => number = () => performance.now(),
): CircuitBreaker {
  let failedInARow = 0
  let openUntil: number | undefined
  let trying = false

  function retryAfterMs(): number {
    if (openUntil === undefined) return 0
    const left = openUntil - nowMs()
    // While one call tests the other side, the others wait a full recovery time.
    return left > 0 ? left : trying ? recoveryMs : 0
  }

  return {
    retryAfterMs,
    admit() {
      if (retryAfterMs() > 0) return false
      trying = openUntil !== undefined
      return true
    },
    succeeded() {
      failedInARow = 0
      trying = false
      if (openUntil === undefined) return
      openUntil = undefined
      events.closed()
    },
    failed() {
      failedInARow++
      trying = false
      if (failedInARow < failures) return
      const wasClosed = openUntil === undefined
      openUntil = nowMs() + recoveryMs
      if (wasClosed) events.opened()
    },
    unknown() {
      trying = false
    },
  }
}
