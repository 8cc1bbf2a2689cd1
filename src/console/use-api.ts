/**
 * Data of the Admin API for components: `useApi`, one reply, perhaps asked for again and again; `useList`, a list that loads
 * page after page by cursor.
 */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { AdminApiError, call, follow, type Input, type OperationId, type Output, page, queryOf } from './api.ts'
import { onForgotten } from './stored-session.ts'

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

/** Rows of a list that the page keeps: more rows make a browser slow. */
const MOST_ROWS = 1_000
const ROWS_A_PAGE = 100
/** False where `admin_api.max_page_size` is less: pages are then as long as the service likes. */
let isPageSizeTaken = true

export type Row<I extends OperationId> = Output<I> extends readonly (infer R)[] ? R : never

export interface Listed<R> {
  rows: readonly R[]
  error: unknown
  isLoading: boolean
  /** There is another page. */
  hasMore: boolean
  /** The search was cut off; the next page continues it. */
  isCut: boolean
  /** Rows that left the page at its beginning, so that it stays small. */
  dropped: number
  /** Filters of the address that the operation does not have. */
  unknown: readonly string[]
  more(): void
  reload(): void
  /** All rows from the first on, page after page, beside those that are shown. */
  all(): AsyncIterable<R>
}

interface ListState<R> {
  /** The entry, the operation and the input that it belongs to. */
  key: string
  rows: readonly R[]
  next: string | undefined
  isCut: boolean
  dropped: number
  error: unknown
  isLoading: boolean
}

/** The lists of the entries of the history: going back shows a list as it was left. */
const remembered = new Map<string, ListState<unknown>>()
const MOST_REMEMBERED = 8
onForgotten(() => remembered.clear())

function remember(state: ListState<unknown>): void {
  remembered.delete(state.key)
  remembered.set(state.key, state)
  const [oldest] = remembered.keys()
  if (remembered.size > MOST_REMEMBERED && oldest !== undefined) remembered.delete(oldest)
}

const emptyList = <R>(key: string): ListState<R> => ({
  key,
  rows: [],
  next: undefined,
  isCut: false,
  dropped: 0,
  error: undefined,
  isLoading: true,
})

/** A list that takes an offset or a cursor begins by cursor, which has no end. */
function firstPlace(id: OperationId): Record<string, string> {
  const paging = queryOf(id)
  return {
    ...(isPageSizeTaken && paging.includes('limit') && { limit: String(ROWS_A_PAGE) }),
    ...(paging.includes('offset') && paging.includes('cursor') && { cursor: '' }),
  }
}

async function firstPage<I extends OperationId>(id: I, input: Input<I>) {
  const ask = () =>
    page(id, { ...input, query: { ...firstPlace(id), ...(input as { query?: object }).query } } as Input<I>)
  // Another list may find out meanwhile.
  const wasTaken = isPageSizeTaken
  try {
    return await ask()
  } catch (error) {
    if (!wasTaken || !isAbout(error, 'limit')) throw error
    isPageSizeTaken = false
    return await ask()
  }
}

const isAbout = (error: unknown, field: string) =>
  error instanceof AdminApiError && error.body.fields?.some((one) => one.field === field) === true

/** All rows of a list operation; each page is asked for when the one before was read. */
export async function* allRows<I extends OperationId>(id: I, input: Input<I>): AsyncGenerator<Row<I>> {
  for (let got = await firstPage(id, input); ; got = await follow(id, got.next)) {
    yield* got.body as Row<I>[]
    if (got.next === undefined) return
  }
}

/** An old or mistyped link may name a filter that the operation does not have. */
function withoutUnknown<I extends OperationId>(id: I, input: Input<I>) {
  const given = Object.entries((input as { query?: object }).query ?? {})
  const unknown = given.map(([name]) => name).filter((name) => !queryOf(id).includes(name))
  const query = Object.fromEntries(given.filter(([name]) => !unknown.includes(name)))
  return { input: unknown.length === 0 ? input : ({ ...input, query } as Input<I>), unknown }
}

/**
 * The rows of a list operation, page after page.
 * @param entry of the place (`usePlace`), under which the rows are remembered for the back button
 */
export function useList<I extends OperationId>(id: I, asked: Input<I>, entry?: number): Listed<Row<I>> {
  const { input, unknown } = withoutUnknown(id, asked)
  const key = keyOf(entry, id, input)
  const [state, setState] = useState<ListState<Row<I>>>(() => emptyList(key))
  const [round, setRound] = useState(0)
  const turns = useRef(0)

  const load = useCallback(
    async (next: string | undefined) => {
      const turn = ++turns.current
      setState((former) => (next === undefined ? emptyList(key) : { ...former, isLoading: true, error: undefined }))
      try {
        const got = next === undefined ? await firstPage(id, input) : await follow(id, next)
        if (turn === turns.current) setState((former) => withPage(former, got.body as Row<I>[], got))
      } catch (error) {
        if (turn === turns.current) setState((former) => ({ ...former, error, isLoading: false }))
      }
    },
    [key],
  )

  useEffect(() => {
    const known = round === 0 && entry !== undefined ? remembered.get(key) : undefined
    if (known) setState(known as ListState<Row<I>>)
    else void load(undefined)
    return () => {
      turns.current++
    }
  }, [key, round, load, entry])

  useEffect(() => {
    if (!state.isLoading && state.error === undefined && entry !== undefined) remember(state)
  }, [state, entry])

  const { next, isCut, rows, error, isLoading, dropped } = state.key === key ? state : emptyList<Row<I>>(key)
  const more = useCallback(() => {
    if (next !== undefined && !isLoading) void load(next)
  }, [next, isLoading, load])
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const all = () => allRows(id, input)
  return { rows, error, isLoading, hasMore: next !== undefined, isCut, dropped, unknown, more, reload, all }
}

function withPage<R>(
  former: ListState<R>,
  added: readonly R[],
  { next, isCut }: { next: string | undefined; isCut: boolean },
): ListState<R> {
  const all = [...former.rows, ...added]
  const over = Math.max(0, all.length - MOST_ROWS)
  return {
    ...former,
    rows: all.slice(over),
    next,
    isCut,
    dropped: former.dropped + over,
    error: undefined,
    isLoading: false,
  }
}
