/**
 * Secrets that the service shows once. They stay in the session storage of the tab, through Back and reload, until the user
 * closes them on purpose or the session ends.
 */

import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { href } from '../router.ts'
import { createStore, useStore } from '../store.ts'
import { currentSession, onEnded, onForgotten, useSession } from '../stored-session.ts'
import { Button, Copyable } from './basics.tsx'
import { Dialog } from './dialog.tsx'

export interface KeptSecret {
  /** The id of the object that it belongs to, such as a credential. */
  id: string
  /** The page that shows it. */
  place: string
  title: string
  /** Label and text. */
  secrets: readonly (readonly [label: string, text: string])[]
  /** The session has ended with it, and the next one needs it. */
  isForSignIn?: true
}

interface Stored extends KeptSecret {
  userId: string
}

const KEY = 'chancery.once-shown'
const kept = createStore<readonly Stored[]>(restored())

kept.follow(() => {
  if (kept.get().length === 0) sessionStorage.removeItem(KEY)
  else sessionStorage.setItem(KEY, JSON.stringify(kept.get()))
  watchLeaving()
})
watchLeaving()
onForgotten(() => kept.set([]))
onEnded((why) => keepOnly(({ isForSignIn }) => why === 'ended' && isForSignIn === true))
if (currentSession().user === undefined) keepOnly(() => false)

function restored(): readonly Stored[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '[]') as Stored[]
  } catch {
    return []
  }
}

function keepOnly(isKept: (secret: Stored) => boolean): void {
  const left = kept.get().filter(isKept)
  if (left.length < kept.get().length) kept.set(left)
}

/** The browser asks before it closes the tab, with which they would be lost. */
function watchLeaving(): void {
  if (kept.get().length > 0) addEventListener('beforeunload', ask)
  else removeEventListener('beforeunload', ask)
}

function ask(event: Event): void {
  event.preventDefault()
}

export function keepSecret(secret: KeptSecret): void {
  const userId = currentSession().user?.id
  if (userId === undefined) return
  kept.set([...kept.get().filter(({ id }) => id !== secret.id), { ...secret, userId }])
}

export const closeSecret = (id: string) => keepOnly((one) => one.id !== id)

/** The secrets of the user who is signed in. Secrets of another user, who has used this tab before, are forgotten. */
export function useKeptSecrets(): readonly KeptSecret[] {
  const all = useStore(kept)
  const { user } = useSession()
  const own = all.filter(({ userId }) => userId === user?.id)
  const hasForeign = user !== undefined && own.length < all.length
  useEffect(() => {
    if (hasForeign) keepOnly(({ userId }) => userId === user?.id)
  }, [hasForeign, user?.id])
  return own
}

/** A line on other pages that leads back to the page of a secret. */
export function OpenSecrets({ path }: { path: string }) {
  const elsewhere = useKeptSecrets().filter(({ place }) => place !== path)
  return (
    <>
      {elsewhere.map(({ id, place, title }) => (
        <div key={id} class="bar warn" role="status">
          <p>{title}: shown once, and not closed yet. It is lost with this tab.</p>
          <a href={href(place)}>View</a>
        </div>
      ))}
    </>
  )
}

interface OnceShownProps {
  place: string
  onClose?: () => void
  /** Stands below the secret. */
  children?: (secret: KeptSecret) => ComponentChildren
}

/** The secrets of a page, each in a dialog. */
export function OnceShown({ place, onClose, children }: OnceShownProps) {
  const secret = useKeptSecrets().find((one) => one.place === place)
  if (!secret) return null
  const close = () => {
    closeSecret(secret.id)
    onClose?.()
  }
  return (
    <Dialog key={secret.id} title={secret.title} wide>
      <p>Copy it now: it is shown only once.</p>
      {secret.secrets.map(([label, text]) => (
        <section class="section" key={label}>
          <h3>{label}</h3>
          <Copyable text={text} block />
        </section>
      ))}
      {children?.(secret)}
      <div class="actions">
        <Button kind="primary" text="I have copied it" onClick={close} />
      </div>
    </Dialog>
  )
}
