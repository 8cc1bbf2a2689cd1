/** A signal that ends with another one or after a time. AbortSignal.any would cost several times as much. */

export interface TimeLimit {
  signal: AbortSignal
  /** When the work has ended. */
  clear(): void
}

export function timeLimit(ms: number, other: AbortSignal): TimeLimit {
  const ended = new AbortController()
  const follow = () => ended.abort(other.reason)
  const timer = setTimeout(() => ended.abort(new DOMException('it did not end in time', 'TimeoutError')), ms)
  if (other.aborted) follow()
  else other.addEventListener('abort', follow, { once: true })
  return {
    signal: ended.signal,
    clear() {
      clearTimeout(timer)
      other.removeEventListener('abort', follow)
    },
  }
}
