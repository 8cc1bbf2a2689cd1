/** What one turn of the event loop brings, in one piece: to wake another thread costs more than most of what it is told. */

/** @returns takes an item; `deliver` gets those of a turn at its end. */
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
