/**
 * One session for all tabs of a browser, without a cookie: a tab asks the others for theirs over a BroadcastChannel,
 * which reaches this origin alone (HTML Standard, Broadcasting to other browsing contexts).
 */

/** What tabs tell each other. */
type Message<S> =
  | { kind: 'ask' }
  /** The answer, and a new sign-in. */
  | { kind: 'session'; session: S }
  /** The user signed out. */
  | { kind: 'forget'; token: string }
  | { kind: 'active' }

interface TabEvents<S> {
  /** The session of this tab, for another. */
  session(): S | undefined
  onSession(session: S): void
  onForget(token: string): void
  onActive(): void
}

export interface Tabs<S> {
  /** Asks the others for a session. */
  ask(): void
  share(session: S): void
  forget(token: string): void
  /** The user does something here. */
  noteActive(): void
}

/** The others need not know each press of a key. */
const ACTIVE_EVERY_MS = 5_000

export function joinTabs<S>(events: TabEvents<S>): Tabs<S> {
  const channel = new BroadcastChannel('chancery.session')
  const send = (message: Message<S>) => channel.postMessage(message)
  let toldAt = 0
  channel.onmessage = ({ data }: MessageEvent<Message<S>>) => {
    if (data.kind === 'active') return events.onActive()
    if (data.kind === 'forget') return events.onForget(data.token)
    if (data.kind === 'session') return events.onSession(data.session)
    const session = events.session()
    if (session !== undefined) send({ kind: 'session', session })
  }
  return {
    ask: () => send({ kind: 'ask' }),
    share: (session) => send({ kind: 'session', session }),
    forget: (token) => send({ kind: 'forget', token }),
    noteActive() {
      if (Date.now() - toldAt < ACTIVE_EVERY_MS) return
      toldAt = Date.now()
      send({ kind: 'active' })
    },
  }
}
