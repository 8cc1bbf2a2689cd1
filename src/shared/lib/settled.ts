/** A promise that is awaited later: what it ends with is kept, and no rejection goes unhandled until then. */

type Settled<T> = { value: T } | { error: unknown }

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
