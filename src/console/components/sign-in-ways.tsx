/** Ways to sign in beside the password, and what comes back from a provider. */

import { useEffect, useState } from 'preact/hooks'
import { useApi } from '../api.ts'
import { finishOidc, isFromProvider, isToStart, START_URL, startOidc } from '../oidc.ts'
import { Problem } from './basics.tsx'
import { useSubmit } from './form.tsx'

/** @param isOverPage the page below keeps what was typed, so that the provider gets a tab of its own */
export function OtherWays({ isOverPage = false }: { isOverPage?: boolean }) {
  const { data } = useApi('getSignInMethods', {})
  const { submit, error, isBusy } = useSubmit(() => startOidc())
  if (!data?.oidc) return null
  const text = `Sign in with ${data.oidc.name}`
  return (
    <div class="narrow">
      {isOverPage ? (
        <a class="button" href={START_URL} target="_blank" rel="noopener">
          {text} in a new tab
        </a>
      ) : (
        <button type="button" disabled={isBusy} onClick={() => submit()}>
          {text}
        </button>
      )}
      <Problem error={error} />
    </div>
  )
}

/** Begins or ends a sign-in at a provider, as the address of this tab says. */
export function ProviderReply() {
  const [error, setError] = useState<unknown>()
  const [isAtWork, setAtWork] = useState(isFromProvider() || isToStart())
  useEffect(() => {
    if (!isAtWork) return
    const work = isFromProvider() ? finishOidc() : startOidc()
    work.catch(setError).finally(() => setAtWork(false))
  }, [])
  if (isAtWork) return <p role="status">Signing in …</p>
  return <Problem error={error} />
}
