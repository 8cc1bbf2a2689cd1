/** The frame of one page: its heading, its buttons, its sections, and the line that says what has just happened. */

import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { chooseZone, isBrowserInUtc, useZone, zoneName } from '../preferences.ts'
import { createStore, useStore } from '../store.ts'

/** The name of this installation, as the service has written it into the page (`admin_api.environment`). */
const ENVIRONMENT = document.documentElement.dataset['environment']

/** The title of the tab. */
export const titleOf = (page: string): string =>
  [page, ENVIRONMENT, 'Chancery'].filter((part) => part !== undefined).join(' · ')

export const EnvironmentName = () => (ENVIRONMENT === undefined ? null : <span class="environment">{ENVIRONMENT}</span>)

interface PageFrame {
  title: string
  /** Buttons beside the title. */
  actions?: ComponentChildren
  children: ComponentChildren
}

/** The heading gets the focus when the page is opened, so that a screen reader begins there. */
export function Page({ title, actions, children }: PageFrame) {
  useEffect(() => {
    document.title = titleOf(title)
  }, [title])
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>{title}</h1>
        {actions}
        <ZoneSwitch />
      </div>
      {children}
    </>
  )
}

/** Says in which zone all times of the page are. */
function ZoneSwitch() {
  const zone = useZone()
  if (isBrowserInUtc) return <span class="quiet">Times: UTC</span>
  const other = zone === 'utc' ? 'local' : 'utc'
  return (
    <button type="button" class="small" onClick={() => chooseZone(other)} title={`Show times in ${zoneName(other)}`}>
      Times: {zoneName(zone)}
    </button>
  )
}

/** A part of a page under a heading of its own. */
export const Section = ({ title, children }: { title: ComponentChildren; children: ComponentChildren }) => (
  <section class="section">
    <h2>{title}</h2>
    {children}
  </section>
)

interface Told {
  text: string
  tone: 'good' | 'bad'
}

const SHOWN_MS = { good: 6_000, bad: 60_000 }
const told = createStore<Told | undefined>(undefined)
let timer: ReturnType<typeof setTimeout> | undefined

export function tell(text: string, tone: Told['tone'] = 'good'): void {
  told.set({ text, tone })
  clearTimeout(timer)
  timer = setTimeout(() => told.set(undefined), SHOWN_MS[tone])
}

export function Toast() {
  const now = useStore(told)
  return (
    <div class="toast" role="status" aria-live="polite">
      {now && <p class={now.tone}>{now.text}</p>}
    </div>
  )
}
