/**
 * Sign-in by OpenID Connect in the browser: a secret stays in this tab, and its hash goes to the service. A link from
 * elsewhere cannot finish a sign-in, since this tab then has no secret or another one.
 */

import { call } from './api.ts'
import { FormError } from './components/basics.tsx'
import { base64url } from './format.ts'
import { begin } from './stored-session.ts'

const KEY = 'chancery.oidc'

interface Begun {
  secret: string
  /** The hash of the page that the user wanted. */
  place: string
}

/** Leaves this page for the provider. @param isFresh the provider asks the user to sign in there anew */
export async function startOidc(isFresh = false): Promise<void> {
  const secret = base64url(crypto.getRandomValues(new Uint8Array(32)))
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(secret))
  const { url } = await call('startOidc', { body: { binding: base64url(hash), fresh: isFresh } })
  sessionStorage.setItem(KEY, JSON.stringify({ secret, place: location.hash } satisfies Begun))
  location.assign(url)
}

/** Opens a tab that begins a sign-in: the other tabs get its session. */
export const START_URL = `${location.pathname}?sign-in=oidc`
const isToStart = (): boolean => new URLSearchParams(location.search).get('sign-in') === 'oidc'

/** Whether the provider has sent the browser back. */
export const isFromProvider = (): boolean => new URLSearchParams(location.search).has('state')

/** Whether this tab was opened for a sign-in by a provider. */
export const isOfProvider = (): boolean => isFromProvider() || isToStart()

/** The code is good once, and has no business in the history. */
export const clearAddress = () => history.replaceState(history.state, '', location.pathname + location.hash)

/** @throws AdminApiError; FormError when this tab has begun no sign-in */
export async function finishOidc(): Promise<void> {
  const query = location.search.slice(1)
  const begun = taken()
  clearAddress()
  if (!begun) throw new FormError('oidc', 'This sign-in was not begun in this tab. Begin again.')
  const { token, user } = await call('finishOidc', { body: { query, secret: begun.secret } })
  begin(token, user)
  location.hash = begun.place
}

function taken(): Begun | undefined {
  const kept = sessionStorage.getItem(KEY)
  sessionStorage.removeItem(KEY)
  return kept === null ? undefined : (JSON.parse(kept) as Begun)
}
