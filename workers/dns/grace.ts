/** Several look-ups side by side: once one is good, the slow ones have a bounded time. */

/**
 * Waits for all results, but once one of them `isGood`, the others get `graceMs` before `giveUp` is
 * called, which must make them end.
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
