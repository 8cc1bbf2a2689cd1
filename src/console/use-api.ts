/** `useApi`: one reply of the Admin API, perhaps asked for again and again. */

import { useCallback, useEffect, useState } from 'preact/hooks'
import { call, type Input, type OperationId, type Output } from './api.ts'

export const POLL_MS = 5_000

export interface Loaded<T> {
  /** The last good reply; it stays when a later one fails. */
  data: T | undefined
  error: unknown
  isLoading: boolean
  /** The time when `data` came, in milliseconds. */
  loadedAt: number | undefined
  /** Milliseconds after which it is asked again. */
  every: number | undefined
  reload(): void
}

interface LoadState<T> extends Omit<Loaded<T>, 'reload' | 'every'> {
  /** The operation and the input that it belongs to. */
  key: string
}

const nothing = <T>(key: string): LoadState<T> => ({
  key,
  data: undefined,
  error: undefined,
  isLoading: true,
  loadedAt: undefined,
})

/** The parts are unknown: a union of the inputs of all operations is too much for the compiler. */
export const keyOf = (...parts: readonly unknown[]) => JSON.stringify(parts)

interface Repetition<T> {
  /** Milliseconds after which it is asked again, but not in a hidden tab. */
  every?: number
  /** It is asked again until then. */
  until?: (data: T) => boolean
}

/** Asks when the page opens and when the input changes. */
export function useApi<I extends OperationId>(
  id: I,
  input: Input<I>,
  { every, until }: Repetition<Output<I>> = {},
): Loaded<Output<I>> {
  const key = keyOf(id, input)
  const [state, setState] = useState<LoadState<Output<I>>>(() => nothing(key))
  const [round, setRound] = useState(0)
  useEffect(() => {
    const change = (changed: Partial<LoadState<Output<I>>>) =>
      setState((former) => ({ ...(former.key === key ? former : nothing<Output<I>>(key)), ...changed }))
    return repeat(every, async (isWanted) => {
      change({ isLoading: true })
      const got = await call(id, input).then(
        (data) => ({ data, error: undefined, loadedAt: Date.now() }),
        (error: unknown) => ({ error }),
      )
      if (isWanted()) change({ ...got, isLoading: false })
      return !('data' in got && until?.(got.data) === true)
    })
  }, [key, every, round])
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const { key: _, ...shown } = state.key === key ? state : nothing<Output<I>>(key)
  return { ...shown, every, reload }
}

/** Runs work now, and again while it says so and the tab can be seen. @returns a function that ends it */
function repeat(every: number | undefined, work: (isWanted: () => boolean) => Promise<boolean>): () => void {
  let isOver = false
  let isPaused = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const run = async () => {
    const isAskedAgain = await work(() => !isOver)
    if (isAskedAgain && !isOver && every !== undefined) timer = setTimeout(unlessHidden, every)
  }
  const unlessHidden = () => {
    isPaused = document.hidden
    if (!isPaused) void run()
  }
  const onShown = () => {
    if (isPaused) unlessHidden()
  }
  document.addEventListener('visibilitychange', onShown)
  void run()
  return () => {
    isOver = true
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', onShown)
  }
}
