/** Ways to sign in beside the password, and what comes back from a provider. */

import { useEffect, useState } from 'preact/hooks'
import { clearAddress, finishOidc, isFromProvider, isOfProvider, START_URL, startOidc } from '../oidc.ts'
import { elsewhere, signInByPasskey, workHere } from '../passkeys.ts'
import { useApi } from '../use-api.ts'
import { Problem } from './basics.tsx'
import { useSubmit } from './form.tsx'

interface OtherWaysProps {
  /** The page below keeps what was typed, so that the provider gets a tab of its own. */
  isOverPage?: boolean
}

export function OtherWays({ isOverPage = false }: OtherWaysProps) {
  const { data, error: unread, reload } = useApi('getSignInMethods', {})
  const { submit, error, isBusy } = useSubmit(signInByPasskey)
  // Without the reply nobody knows which ways there are; a person of a provider has no password.
  if (unread !== undefined)
    return (
      <div class="narrow">
        <p>Other ways to sign in could not be read.</p>
        <Problem error={unread} retry={reload} />
      </div>
    )
  return (
    <div class="narrow">
      {workHere(data) && (
        <button type="button" disabled={isBusy} onClick={() => submit()}>
          Sign in with a passkey
        </button>
      )}
      {elsewhere(data) && !isOverPage && <p class="quiet">Passkeys work at {elsewhere(data)} alone.</p>}
      <Problem error={error} />
      <ProviderWay isOverPage={isOverPage} />
    </div>
  )
}

export function ProviderWay({ isOverPage = false }: OtherWaysProps) {
  const { data } = useApi('getSignInMethods', {})
  const { submit, error, isBusy } = useSubmit(() => startOidc())
  if (!data?.oidc) return null
  const text = `Sign in with ${data.oidc.name}`
  return isOverPage ? (
    <a class="button" href={START_URL} target="_blank" rel="noopener">
      {text} in a new tab
    </a>
  ) : (
    <>
      <button type="button" disabled={isBusy} onClick={() => submit()}>
        {text}
      </button>
      <Problem error={error} />
    </>
  )
}

/** Begins or ends a sign-in at a provider, as the address of this tab says. */
export function ProviderReply() {
  const [error, setError] = useState<unknown>()
  const [isAtWork, setAtWork] = useState(isOfProvider())
  useEffect(() => {
    if (!isAtWork) return
    // A tab that another page opened is to prove who the user is.
    const work = isFromProvider() ? finishOidc() : startOidc(true)
    work.catch((cause) => {
      clearAddress()
      setError(cause)
      setAtWork(false)
    })
  }, [])
  if (isAtWork) return <p role="status">Signing in …</p>
  return <Problem error={error} />
}
