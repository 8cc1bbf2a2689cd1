/**
 * The Admin API for pages: `call` for one request, `can` for what the user's role allows, and the
 * hooks `useApi` (one reply, perhaps polled) and `useList` (a list that loads on by cursor).
 */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import {
  AdminApiError,
  AdminClient,
  ApprovalRequested,
  type Input,
  type OperationId,
  type Output,
  type Routes,
} from '../admin/client.ts'
import { askOverPage, sendToEnrol } from './questions.ts'
import { currentSession, expire, onForgotten, type Role, signedInAgain } from './stored-session.ts'

export type { Input, OperationId, Output }
export { AdminApiError, ApprovalRequested }

type Paging = 'limit' | 'offset' | 'cursor'
type Described = readonly [method: string, path: string, roles: readonly Role[] | 'none', paging: readonly Paging[]]
/** From the descriptions of the endpoints, by `src/dev/build-console.mjs`. */
declare const OPERATIONS_OF_BUILD: Readonly<Record<OperationId, Described>>

/** The service itself waits up to 25 seconds for a job. */
const TIMEOUT_MS = 60_000
export const POLL_MS = 5_000
/** Rows of a list that the page keeps: more rows make a browser slow. */
const MOST_ROWS = 2_000
const ROWS_A_PAGE = 100
/** False where `admin_api.max_page_size` is less: pages are then as long as the service likes. */
let isPageSizeTaken = true

export const BASE_URL = new URL('..', location.href).href.replace(/\/$/, '')

const client = new AdminClient({
  routes: OPERATIONS_OF_BUILD as unknown as Routes,
  baseUrl: BASE_URL,
  token: () => currentSession().token,
  fetch: (url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }),
})

/** Whether the signed-in user's role may call an operation. */
export function can(id: OperationId): boolean {
  const roles = OPERATIONS_OF_BUILD[id][2]
  const { user } = currentSession()
  return roles === 'none' || (user !== undefined && roles.includes(user.role))
}

/** These concern the session of the moment, and are not sent again for a later one. */
const OF_THIS_SESSION: readonly OperationId[] = [
  'login',
  'logout',
  'startOidc',
  'finishOidc',
  'signInByPasskey',
  'confirmSignIn',
]

/**
 * Asks for a new sign-in and then tries again, when the service no longer takes the token. So it does for what a grave
 * act needs: a confirmation, or the reason for another person.
 */
async function inSession<T>(id: OperationId, ask: (approvalReason?: string) => Promise<T>): Promise<T> {
  let reason: string | undefined
  if (OF_THIS_SESSION.includes(id)) return await ask()
  for (;;) {
    if (OPERATIONS_OF_BUILD[id][2] !== 'none') await signedInAgain()
    const { token } = currentSession()
    try {
      return await ask(reason)
    } catch (error) {
      if (!(error instanceof AdminApiError)) throw error
      if (error.body.error === 'second_factor_needed') sendToEnrol()
      if (error.body.error === 'sign_in_again') await askOverPage('identity', error)
      else if (error.body.error === 'approval_needed' && reason === undefined)
        reason = await askOverPage('reason', error)
      else if (error.status === 401) expire(token)
      else throw error
    }
  }
}

/** @throws AdminApiError; TypeError or DOMException when the service does not answer */
export const call = <I extends OperationId>(id: I, input: Input<I>): Promise<Output<I>> =>
  inSession(id, (reason) => client.call(id, input, reason))

/** As `call`, with the status and the place of the next page. */
const page = <I extends OperationId>(id: I, input: Input<I>) => inSession(id, () => client.page(id, input))
const follow = <I extends OperationId>(id: I, next: string) => inSession(id, () => client.follow(id, next))

/** The lines of a streamed reply. */
export const lines = <I extends OperationId>(id: I, input: Input<I>) => client.lines(id, input)

export interface Loaded<T> {
  /** From the last good reply; it stays when a later one fails. */
  data: T | undefined
  error: unknown
  isLoading: boolean
  /** When `data` came, in milliseconds. */
  loadedAt: number | undefined
  /** Milliseconds after which it is asked again. */
  every: number | undefined
  reload(): void
}

interface LoadState<T> extends Omit<Loaded<T>, 'reload' | 'every'> {
  /** Operation and input that it belongs to. */
  key: string
}

const nothing = <T>(key: string): LoadState<T> => ({
  key,
  data: undefined,
  error: undefined,
  isLoading: true,
  loadedAt: undefined,
})

/** As `unknown`: a union of the inputs of all operations is too much for the compiler. */
const keyOf = (...parts: readonly unknown[]) => JSON.stringify(parts)

/**
 * Asks when the page opens and when the input changes.
 * @param every milliseconds; asked again, but not in a hidden tab
 */
export function useApi<I extends OperationId>(
  id: I,
  input: Input<I>,
  { every }: { every?: number } = {},
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
    })
  }, [key, every, round])
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const { key: _, ...shown } = state.key === key ? state : nothing<Output<I>>(key)
  return { ...shown, every, reload }
}

/** Runs work now and, while the tab can be seen, again. @returns what ends it */
function repeat(every: number | undefined, work: (isWanted: () => boolean) => Promise<void>): () => void {
  let isOver = false
  let isPaused = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const run = async () => {
    await work(() => !isOver)
    if (!isOver && every !== undefined) timer = setTimeout(unlessHidden, every)
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

type Row<I extends OperationId> = Output<I> extends readonly (infer R)[] ? R : never

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
  more(): void
  reload(): void
  /** All rows from the first on, page after page, beside those that are shown. */
  all(): AsyncIterable<R>
}

interface ListState<R> {
  /** Entry, operation and input that it belongs to. */
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
  const paging = OPERATIONS_OF_BUILD[id][3]
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

/**
 * The rows of a list operation, page after page.
 * @param entry of the place (`usePlace`), under which the rows are remembered for the back button
 */
export function useList<I extends OperationId>(id: I, input: Input<I>, entry?: number): Listed<Row<I>> {
  const key = keyOf(entry, id, input)
  const [state, setState] = useState<ListState<Row<I>>>(() => emptyList(key))
  const [round, setRound] = useState(0)
  const asked = useRef(0)

  const load = useCallback(
    async (next: string | undefined) => {
      const turn = ++asked.current
      setState((former) => (next === undefined ? emptyList(key) : { ...former, isLoading: true, error: undefined }))
      try {
        const got = next === undefined ? await firstPage(id, input) : await follow(id, next)
        if (turn === asked.current) setState((former) => withPage(former, got.body as Row<I>[], got))
      } catch (error) {
        if (turn === asked.current) setState((former) => ({ ...former, error, isLoading: false }))
      }
    },
    [key],
  )

  useEffect(() => {
    const known = round === 0 && entry !== undefined ? remembered.get(key) : undefined
    if (known) setState(known as ListState<Row<I>>)
    else void load(undefined)
    return () => {
      asked.current++
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
  return { rows, error, isLoading, hasMore: next !== undefined, isCut, dropped, more, reload, all }
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
