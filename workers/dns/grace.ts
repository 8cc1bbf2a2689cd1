/** Runs look-ups in parallel. After one good result, the slow ones get limited time. */

/**
 * Waits for all results. `graceMs` after one `isGood`, it calls `giveUp`, which must end the
 * others.
 */
export async function allWithGrace<R>(
  results: readonly Promise<R>[],
  isGood: (result: R) => boolean,
  graceMs: number,
  giveUp: () => void,
): Promise<R[]> {
  let timer: NodeJS.Timeout | undefined
  let open = results.length
  const watched = results.map(async (pending) => {
    const result = await pending
    if (--open > 0 && isGood(result)) timer ??= setTimeout(giveUp, graceMs)
    return result
  })
  const all = await Promise.all(watched)
  clearTimeout(timer)
  return all
}
