/** Live counters of the daemon, which `health` reports. Plain data; each number has one writer. */

export interface Counters {
  readonly startedAt: number
  signatures: number
  refusals: number
  /** Requests accepted and not yet answered, over all connections. */
  inFlight: number
  /** Open connections, those still in their handshake included. */
  connections: number
  lastError: { at: string; message: string } | undefined
}

export function createCounters(): Counters {
  return { startedAt: performance.now(), signatures: 0, refusals: 0, inFlight: 0, connections: 0, lastError: undefined }
}

/** A message may quote a client's input, but `health` must still fit into its frame. */
const MAX_MESSAGE_CHARACTERS = 500

/** Remembers the newest failure. Refusals do not count. */
export function noteError(counters: Counters, error: unknown): void {
  counters.lastError = {
    at: new Date().toISOString(),
    message: (error instanceof Error ? error.message : String(error)).slice(0, MAX_MESSAGE_CHARACTERS),
  }
}
