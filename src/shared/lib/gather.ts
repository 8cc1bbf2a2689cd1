/**
 * Batches items per turn of the event loop: waking another thread costs more than most messages.
 */

/** @returns a function that takes an item; `deliver` gets all items of a turn at its end */
export function gatherTurns<T>(deliver: (items: readonly T[]) => void): (item: T) => void {
  let gathered: T[] = []

  function end(): void {
    const items = gathered
    gathered = []
    deliver(items)
  }

  return (item) => {
    if (gathered.push(item) === 1) setImmediate(end)
  }
}
