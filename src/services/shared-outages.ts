/**
 * Shared memory of an instance's threads: how long each backend that issues from a CSR is left alone.
 * The supervisor writes it, whose circuit breakers know; a front thread refuses a finalize by it.
 */

export interface SharedOutages {
  /** Until the backend is asked again; 0 when it may be asked now. */
  secondsLeft(backend: string): number
  set(backend: string, leftAloneMs: number): void
}

/** @param backends the same list in every thread */
export function allocateSharedOutages(backends: readonly string[]): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * backends.length)
}

export function openSharedOutages(memory: SharedArrayBuffer, backends: readonly string[]): SharedOutages {
  const cells = new Int32Array(memory)
  return {
    secondsLeft(backend) {
      const at = backends.indexOf(backend)
      return at < 0 ? 0 : Math.max(0, Atomics.load(cells, at) - Math.floor(monotonicSeconds()))
    },
    set(backend, leftAloneMs) {
      const until = leftAloneMs > 0 ? Math.ceil(monotonicSeconds() + leftAloneMs / 1000) : 0
      Atomics.store(cells, backends.indexOf(backend), until)
    },
  }
}

/** `performance.now()` begins anew in each thread. */
function monotonicSeconds(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds + nanoseconds / 1e9
}
