/**
 * A time-out that hears first what has come in time.
 *
 * The event loop runs timers that are due before it reads sockets and ports. A thread that was held up, for want of a processor or by
 * the collection of garbage, would give up on an answer that has been lying there; here the loop reads once more before that.
 */

/** @returns ends the wait; after it `giveUp` is not called any more. */
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

/** @returns what `work` comes to, or `otherwise` after `ms`; a failure after that is nobody's. */
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
