/**
 * Batches items per tick of the event loop: waking another thread costs more than most messages.
 */

/** @returns a function that takes an item; `deliver` gets all items of a tick at its end */
export function batchPerTick<T>(deliver: (items: readonly T[]) => void): (item: T) => void {
  let batch: T[] = []

  function end(): void {
    const items = batch
    batch = []
    deliver(items)
  }

  return (item) => {
    if (batch.push(item) === 1) setImmediate(end)
  }
}
