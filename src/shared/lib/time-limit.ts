/**
 * Waiting for a promise: later, or with a time-out that accepts an answer which arrived in time.
 *
 * The event loop runs due timers before it reads sockets and ports. A delayed thread (load, garbage collection) would
 * give up on an answer already there. So the loop reads once more before a time-out ends the wait.
 */

/** @returns a function that ends the wait; `giveUp` is not called after it */
export function startTimeLimit(ms: number, giveUp: () => void): () => void {
  let last: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    last = setImmediate(giveUp)
  }, ms)
  return () => {
    clearTimeout(timer)
    clearImmediate(last)
  }
}

/** @returns the result of `work`, or `otherwise` after `ms`; a later failure is ignored */
export async function within<T>(work: Promise<T>, ms: number, otherwise: T): Promise<T> {
  let cancel = () => {}
  const overdue = new Promise<T>((resolve) => {
    cancel = startTimeLimit(ms, () => resolve(otherwise))
  })
  try {
    return await Promise.race([work, overdue])
  } finally {
    cancel()
  }
}

/** Rejects with the reason of the signal, too: `work` may ignore it. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/**
 * A signal that ends with another one or after a time. AbortSignal.any would cost several times as much.
 * @returns `clear`, too, for when the work has ended
 */
export function limitedSignal(ms: number, other: AbortSignal): { signal: AbortSignal; clear(): void } {
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

/** Waits until no work is under way, or until a time-out. The owner counts its work and checks first. */
export class IdleSignal {
  readonly #waiters = new Set<() => void>()

  /** Ends every wait. The owner calls it when its last piece of work has ended. */
  notify(): void {
    const waiters = [...this.#waiters]
    this.#waiters.clear()
    for (const resolve of waiters) resolve()
  }

  /** @returns whether `notify` was called within `timeoutMs`; without a time-out it waits forever */
  wait(timeoutMs?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const onIdle = () => {
        cancel()
        resolve(true)
      }
      const giveUp = () => {
        this.#waiters.delete(onIdle)
        resolve(false)
      }
      const cancel = timeoutMs === undefined ? () => {} : startTimeLimit(timeoutMs, giveUp)
      this.#waiters.add(onIdle)
    })
  }
}

type Settled<T> = { value: T } | { error: unknown }

/** A promise that is awaited later: what it ends with is kept, and no rejection goes unhandled until then. */
export function settled<T>(promise: Promise<T>): Promise<Settled<T>> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
}

/** @throws what the promise was rejected with */
export async function unwrap<T>(promise: Promise<Settled<T>>): Promise<T> {
  const result = await promise
  if ('error' in result) throw result.error
  return result.value
}
