/** Ways to sign in beside the password, and what comes back from a provider. */

import { useEffect, useState } from 'preact/hooks'
import { useApi } from '../api.ts'
import { finishOidc, isFromProvider, isToStart, START_URL, startOidc } from '../oidc.ts'
import { arePasskeysKnown, signInByPasskey } from '../passkeys.ts'
import { Problem } from './basics.tsx'
import { useSubmit } from './form.tsx'

/** @param isOverPage the page below keeps what was typed, so that the provider gets a tab of its own */
export function OtherWays({ isOverPage = false }: { isOverPage?: boolean }) {
  const { data } = useApi('getSignInMethods', {})
  const provider = useSubmit(() => startOidc())
  const passkey = useSubmit(signInByPasskey)
  if (!data) return null
  const text = `Sign in with ${data.oidc?.name}`
  return (
    <div class="narrow">
      {data.passkeys && arePasskeysKnown() && (
        <button type="button" disabled={passkey.isBusy} onClick={() => passkey.submit()}>
          Sign in with a passkey
        </button>
      )}
      <Problem error={passkey.error} />
      {data.oidc &&
        (isOverPage ? (
          <a class="button" href={START_URL} target="_blank" rel="noopener">
            {text} in a new tab
          </a>
        ) : (
          <button type="button" disabled={provider.isBusy} onClick={() => provider.submit()}>
            {text}
          </button>
        ))}
      <Problem error={provider.error} />
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
