/**
 * The session: its user, the token, in memory and in the session storage of the tab, and when it ends. The tabs of a
 * browser share it.
 *
 * A token that the service no longer takes opens the sign-in over the page. Requests wait for it
 * and are sent again, so that nothing typed is lost.
 */

import type { Output } from '../admin/client.ts'
import { createStore, useStore } from './store.ts'

export type User = Output<'getMe'>
export type Role = User['role']

interface Session {
  token: string
  user: User
  /** By the clock of this machine, in milliseconds. */
  endsAt: number
}

/** `user` and no token: the session has ended, and its page is still shown. */
interface SessionState {
  token: string | undefined
  user: User | undefined
  endsAt: number
  /** Another tab may have a session. */
  isWaiting?: boolean
  /** Why the sign-in is shown over the page. */
  asks: Ended | 'wanted' | undefined
}

/** NIST SP 800-63B: 30 minutes without a sign of the user. */
const IDLE_MS = 30 * 60_000
export const WARNING_MS = 2 * 60_000
const TICK_MS = 1_000
const KEY = 'chancery.session'

const NOBODY: SessionState = { token: undefined, user: undefined, endsAt: 0, asks: undefined }
const state = createStore<SessionState>(restored())
let activeAt = Date.now()
let waiting: (() => void)[] = []
/** Most tabs answer within 20 ms. One that is hidden may be later: its session then replaces the sign-in. */
const ANSWER_MS = 100

/** The messages of tabs to each other. `session` answers `ask`, and follows a new sign-in. */
type Message =
  | { kind: 'ask' }
  | { kind: 'session'; session: Session }
  | { kind: 'forget'; token: string }
  | { kind: 'active' }

/** It reaches this origin alone (HTML Standard, Broadcasting to other browsing contexts), and no cookie is needed. */
const channel = new BroadcastChannel('chancery.session')
const send = (message: Message) => channel.postMessage(message)

channel.onmessage = ({ data }: MessageEvent<Message>) => {
  const { token, user, endsAt } = state.get()
  if (data.kind === 'active') activeAt = Date.now()
  else if (data.kind === 'forget' && data.token === token) forgetHere()
  else if (data.kind === 'session') holdOther(data.session)
  else if (data.kind === 'ask' && token !== undefined && user !== undefined)
    send({ kind: 'session', session: { token, user, endsAt } })
}

/** Takes the session of another tab when it lasts longer, unless it is that of another user. */
function holdOther(session: Session): void {
  const { user, endsAt } = state.get()
  const isSameUser = user === undefined || (user.id === session.user.id && user.role === session.user.role)
  if (isSameUser && session.endsAt > Math.max(endsAt, Date.now())) hold(session)
}

if (state.get().token === undefined) {
  state.set({ ...NOBODY, isWaiting: true })
  send({ kind: 'ask' })
  setTimeout(() => state.set({ ...state.get(), isWaiting: false }), ANSWER_MS)
}

export const useSession = (): SessionState => useStore(state)
export const currentSession = state.get

function restored(): SessionState {
  try {
    const { token, user, endsAt } = JSON.parse(sessionStorage.getItem(KEY) ?? '') as Session
    return endsAt > Date.now() ? { token, user, endsAt, asks: undefined } : NOBODY
  } catch {
    return NOBODY
  }
}

/** From `iat` to `exp`: the clocks of the two machines may differ. */
function lifetimeMs(token: string): number {
  const [, claims = ''] = token.split('.')
  const { iat, exp } = JSON.parse(atob(claims.replaceAll('-', '+').replaceAll('_', '/'))) as Record<string, number>
  return ((exp ?? 0) - (iat ?? 0)) * 1000
}

/** Another user gets a page of its own: nothing of the former one stays. */
export function begin(token: string, user: User): void {
  const former = state.get().user
  const session = { token, user, endsAt: Date.now() + lifetimeMs(token) }
  if (former && (former.id !== user.id || former.role !== user.role)) {
    store(session)
    location.reload()
    return
  }
  hold(session)
  send({ kind: 'session', session })
}

const store = (session: Session) => sessionStorage.setItem(KEY, JSON.stringify(session))

/** Continues what waits for a session. */
function hold(session: Session): void {
  store(session)
  activeAt = Date.now()
  state.set({ ...session, asks: undefined })
  for (const resume of waiting.splice(0)) resume()
}

/** The user's role or name, read again. */
export function noteUser(user: User): void {
  const { token, endsAt } = state.get()
  if (token === undefined) return
  store({ token, user, endsAt })
  state.set({ ...state.get(), user })
}

/** Leaves nothing behind, on the screen or in a tab. */
export function forget(): void {
  const { token } = state.get()
  forgetHere()
  if (token !== undefined) send({ kind: 'forget', token })
}

function forgetHere(): void {
  sessionStorage.removeItem(KEY)
  waiting = []
  for (const clear of forgetters) clear()
  state.set(NOBODY)
}

const forgetters: (() => void)[] = []

/** @param clear takes away what a part keeps of the user's data */
export const onForgotten = (clear: () => void) => {
  forgetters.push(clear)
}

type Ended = 'ended' | 'idle'
const enders: ((why: Ended) => void)[] = []

/** @param clear takes away what must not outlive the session, though its page stays */
export const onEnded = (clear: (why: Ended) => void) => {
  enders.push(clear)
}

function tellEnded(why: Ended): void {
  for (const clear of enders) clear(why)
}

/** @param token the one that was refused; a newer one stays */
export function expire(token: string | undefined, asks: Ended = 'ended'): void {
  const now = state.get()
  if (token !== now.token || now.user === undefined) return
  sessionStorage.removeItem(KEY)
  tellEnded(asks)
  state.set({ ...now, token: undefined, asks })
}

export const askToSignIn = () => state.set({ ...state.get(), asks: 'wanted' })
export const cancelSignIn = () => state.set({ ...state.get(), asks: undefined })

/** Waits until somebody has signed in again; for ever when the page is left. */
export function signedInAgain(): Promise<void> {
  if (state.get().token !== undefined) return Promise.resolve()
  return new Promise((resolve) => waiting.push(resolve))
}

/** The other tabs need not know each press of a key. */
const ACTIVE_EVERY_MS = 5_000
let activeSentAt = 0

export const stayActive = () => {
  activeAt = Date.now()
  if (activeAt - activeSentAt < ACTIVE_EVERY_MS) return
  activeSentAt = activeAt
  send({ kind: 'active' })
}

export interface Ending {
  kind: 'idle' | 'end'
  inMs: number
}

/** The end that comes first. */
export function nextEnding(): Ending | undefined {
  const { token, endsAt } = state.get()
  if (token === undefined) return undefined
  const [end, idle] = [endsAt - Date.now(), activeAt + IDLE_MS - Date.now()]
  return idle < end ? { kind: 'idle', inMs: idle } : { kind: 'end', inMs: end }
}

/** @param onIdle ends the session at the service, too; called while there still is the token */
export function watchSession(onIdle: () => void): void {
  for (const sign of ['pointerdown', 'keydown', 'wheel']) addEventListener(sign, stayActive, { passive: true })
  setInterval(() => {
    const ending = nextEnding()
    if (!ending && activeAt + IDLE_MS < Date.now()) tellEnded('idle')
    if (!ending || ending.inMs > 0) return
    if (ending.kind === 'idle') onIdle()
    expire(state.get().token, ending.kind === 'idle' ? 'idle' : 'ended')
  }, TICK_MS)
}
