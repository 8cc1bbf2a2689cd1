/** Starts the console, and draws the frame around its pages: navigation, session, messages, and what a broken page shows. */

import { Component, type ComponentChildren, render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { call, can, type Output } from './api.ts'
import { Problem } from './components/basics.tsx'
import { loadAllPages } from './components/lazy-page.tsx'
import { OpenSecrets } from './components/once-shown.tsx'
import { EnvironmentName, Page, Toast, tell } from './components/page.tsx'
import { SearchField } from './components/search.tsx'
import { QuestionDialog, SessionBar, SignInDialog, SignInPage, UserMenu } from './components/session.tsx'
import { roleText } from './labels.ts'
import { isOfProvider } from './oidc.ts'
import { instantText, watchTheme } from './preferences.ts'
import { href, match, type Place, usePlace } from './router.ts'
import { ROUTES, type Route } from './routes.ts'
import { noteUser, useSession, watchSession } from './stored-session.ts'
import { useApi } from './use-api.ts'

function App() {
  const { user, asks, isWaiting } = useSession()
  // A tab with the session of another tab signs in, too: the new session replaces it.
  if (isOfProvider()) return <SignInPage />
  if (user === undefined) return isWaiting ? null : <SignInPage />
  return (
    <>
      <button type="button" class="skip" onClick={() => document.querySelector<HTMLElement>('main h1')?.focus()}>
        Skip to the content
      </button>
      <Frame />
      <QuestionDialog />
      {asks !== undefined && <SignInDialog />}
      <Toast />
    </>
  )
}

const POLL_MS = 30_000

/** These pages say themselves what is stopped. */
const TELLS_OF_STOPS: readonly string[] = ['/', '/operation']

function Frame() {
  const place = usePlace()
  const [isOpen, setOpen] = useState(false)
  // The menu of a phone lies over the page.
  useEffect(() => setOpen(false), [place.path])
  useScroll(place)
  useRole()
  useEffect(keepFocus, [])
  useEffect(loadAllPages, [])
  return (
    <div class={isOpen ? 'frame open' : 'frame'}>
      <header>
        <a class="brand" href={href('/')}>
          Chancery
        </a>
        <EnvironmentName />
        {can('search') && <SearchField />}
        <button type="button" class="menu" aria-expanded={isOpen} aria-controls="side" onClick={() => setOpen(!isOpen)}>
          Menu {!isOpen && can('countApprovals') && <ApprovalCount />}
        </button>
      </header>
      <div id="side">
        <Navigation path={place.path} />
        <UserMenu />
      </div>
      <main id="main">
        <SessionBar />
        <OpenSecrets path={place.path} />
        {can('getOverview') && !TELLS_OF_STOPS.includes(place.path) && <StopBars />}
        <Broken key={place.path}>
          <CurrentPage place={place} />
        </Broken>
      </main>
    </div>
  )
}

/** An administrator may change it at any time; what the page offers follows. */
function useRole(): void {
  const { data } = useApi('getMe', {}, { every: POLL_MS })
  const { user } = useSession()
  const shown = useRef(user)
  useEffect(() => data && noteUser(data), [data])
  useEffect(() => {
    const former = shown.current
    shown.current = user
    if (user && former?.id === user.id && roleText(former) !== roleText(user))
      tell(`Your role has changed: you are ${roleText(user)} now.`)
  }, [user])
}

const isCurrent = ({ path }: Route, now: string) => path === now || (path !== '/' && now.startsWith(`${path}/`))

function Navigation({ path }: { path: string }) {
  const navigation = useRef<HTMLElement>(null)
  // The current page would be below the edge of the list on a low screen.
  useEffect(() => {
    navigation.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }, [path])
  const shown = ROUTES.filter(({ group, needs }) => group !== undefined && can(needs))
  const groups = [...new Set(shown.map(({ group }) => group))].filter((group) => group !== undefined)
  return (
    <nav ref={navigation} aria-label="Pages">
      {groups.map((group) => (
        <section key={group} aria-label={group}>
          <h2>{group}</h2>
          <ul>
            {shown
              .filter((route) => route.group === group)
              .map((route) => (
                <li key={route.path}>
                  <a href={href(route.path)} aria-current={isCurrent(route, path) ? 'page' : undefined}>
                    {route.name}
                    {route.path === '/approvals' && <ApprovalCount />}
                  </a>
                </li>
              ))}
          </ul>
        </section>
      ))}
    </nav>
  )
}

/** Counts the decisions about requests of others, and the replies to own ones, that wait for this user. */
function ApprovalCount() {
  const { data } = useApi('countApprovals', {}, { every: POLL_MS })
  const count = data === undefined ? 0 : (can('approve') ? data.for_others : 0) + data.results
  return count === 0 ? null : (
    <>
      {' '}
      <span class="badge warn">{count} waiting</span>
    </>
  )
}

function CurrentPage({ place }: { place: Place }) {
  for (const route of ROUTES) {
    const params = match(route.path, place.path)
    if (!params) continue
    const { page: Shown, needs, name } = route
    if (!can(needs)) return <Page title={name}>Your role does not allow this. Ask an administrator.</Page>
    return <Shown params={params} query={place.query} entry={place.entry} />
  }
  return (
    <Page title="Page not found">
      <a href={href('/')}>Go to the first page</a>
    </Page>
  )
}

const scrolls = new Map<number, number>()
/** Events by which the user moves the page. The page then keeps the user's position. */
const MOVES = ['wheel', 'touchmove', 'keydown', 'pointerdown'] as const

function useScroll({ path, entry }: Place): void {
  useEffect(() => {
    history.scrollRestoration = 'manual'
    const wanted = scrolls.get(entry) ?? 0
    scrollTo(0, wanted)
    // The content arrives later and gives the page its former height.
    const growth = new ResizeObserver(() => {
      scrollTo(0, wanted)
      if (Math.ceil(scrollY) >= Math.floor(wanted)) growth.disconnect()
    })
    if (wanted > 0) growth.observe(document.body)
    const leaveAlone = () => growth.disconnect()
    for (const move of MOVES) addEventListener(move, leaveAlone, { passive: true })
    // The browser scrolls before this listener is removed, when a shorter page replaces this one.
    const note = () => {
      if ((history.state as { entry?: number } | null)?.entry === entry) scrolls.set(entry, scrollY)
    }
    addEventListener('scroll', note, { passive: true })
    return () => {
      leaveAlone()
      for (const move of MOVES) removeEventListener(move, leaveAlone)
      removeEventListener('scroll', note)
    }
  }, [entry])
  useFocusAgain(path, entry)
}

/** The address of the link that had the focus, for each entry of the history. */
const focused = new Map<number, string>()
const linkTo = (address: string | undefined) =>
  address === undefined ? null : document.querySelector<HTMLElement>(`main a[href="${CSS.escape(address)}"]`)

/** Focuses the heading of a new page, and after Back the link that was followed. */
function useFocusAgain(path: string, entry: number): void {
  useEffect(() => {
    const wanted = focused.get(entry)
    const focus = (element: HTMLElement | null) => element?.focus({ preventScroll: true })
    focus(linkTo(wanted) ?? document.querySelector<HTMLElement>('main h1'))
    // The rows come later than their page.
    const rows = new MutationObserver(() => {
      const link = linkTo(wanted)
      if (!link) return
      rows.disconnect()
      if (document.activeElement === document.querySelector('main h1')) focus(link)
    })
    if (wanted !== undefined && !linkTo(wanted)) rows.observe(document.body, { childList: true, subtree: true })
    return () => rows.disconnect()
  }, [path])
  useEffect(() => {
    const note = ({ target }: FocusEvent) => {
      const address = target instanceof Element ? target.closest('main a')?.getAttribute('href') : undefined
      if (address) focused.set(entry, address)
    }
    addEventListener('focusin', note)
    return () => removeEventListener('focusin', note)
  }, [entry])
}

class Broken extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  static override getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override componentDidCatch(error: unknown) {
    console.error(error)
  }

  override render() {
    const { error } = this.state
    return error === undefined ? this.props.children : <Problem error={error} retry={() => location.reload()} />
  }
}

/** Gives the focus to the heading when its element leaves the page, such as a removed filter. @returns a function that ends it */
function keepFocus(): () => void {
  let last: EventTarget | null = null
  const note = ({ target }: FocusEvent) => {
    last = target
  }
  const observer = new MutationObserver(() => {
    if (document.activeElement !== document.body || !(last instanceof Element) || last.isConnected) return
    last = null
    document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
  })
  observer.observe(document.body, { childList: true, subtree: true })
  addEventListener('focusin', note)
  return () => {
    observer.disconnect()
    removeEventListener('focusin', note)
  }
}

function StopBars() {
  const { data } = useApi('getOverview', {}, { every: POLL_MS })
  if (!data) return null
  const { maintenance, signing } = data
  return (
    <>
      {signing.signing_stopped && (
        <StopBar title="Signing is stopped: no certificate and no CRL is signed." {...signing} />
      )}
      {maintenance.maintenance_mode && <StopBar title="Maintenance: new orders are refused." {...maintenance} />}
    </>
  )
}

type StopBarProps = { title: string } & Pick<Output<'getMaintenance'>, 'since' | 'set_by' | 'reason'>

const StopBar = ({ title, since, set_by, reason }: StopBarProps) => (
  <div class="bar warn" role="status">
    <p>
      <strong>{title}</strong> {since !== null && `Since ${instantText(since)} by ${set_by ?? '–'}.`}{' '}
      {reason !== null && `“${reason}”`}
    </p>
    <a href={href('/operation')}>View</a>
  </div>
)

watchTheme()
watchSession(() => {
  // The browser forgets the session in any case. Without an answer the service ends it by its age.
  call('logout', {}).catch(() => undefined)
})
const root = document.getElementById('console')
if (root) render(<App />, root)
