/** Signing in and out: the page before, the dialog over the page, the warning, the user's menu. */

import { useEffect, useRef, useState } from 'preact/hooks'
import { BASE_URL, call } from '../api.ts'
import { clockText } from '../format.ts'
import {
  askToSignIn,
  begin,
  cancelSignIn,
  currentSession,
  type Ending,
  forget,
  nextEnding,
  stayActive,
  useSession,
  WARNING_MS,
} from '../session.ts'
import { chooseTheme, THEMES, type Theme, useChosenTheme } from '../theme.ts'
import { WORDS } from '../words.ts'
import { Problem } from './basics.tsx'
import { Confirm, Dialog } from './dialog.tsx'
import { SelectField, TextField, useSubmit } from './form.tsx'

function SignInForm({ username: known = '' }: { username?: string }) {
  const [username, setUsername] = useState(known)
  const [password, setPassword] = useState('')
  const { submit, error, isBusy } = useSubmit(async () => {
    const { token, user } = await call('login', { body: { username: username.trim(), password } })
    begin(token, user)
  })
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    form.current?.querySelector<HTMLInputElement>(known === '' ? 'input' : 'input[type=password]')?.focus()
  }, [known])
  return (
    <form ref={form} onSubmit={submit} class="narrow">
      <TextField
        label={WORDS.session.username}
        value={username}
        onChange={setUsername}
        required
        autoComplete="username"
      />
      <TextField
        label={WORDS.session.password}
        value={password}
        onChange={setPassword}
        required
        type="password"
        autoComplete="current-password"
      />
      <Problem error={error} />
      <button type="submit" class="primary" disabled={isBusy}>
        {isBusy ? WORDS.session.busy : WORDS.session.submit}
      </button>
    </form>
  )
}

export function SignInPage() {
  useEffect(() => {
    document.title = `${WORDS.session.title} · ${WORDS.app.name}`
  }, [])
  return (
    <main class="signin">
      <h1>{WORDS.app.name}</h1>
      <p class="quiet">{BASE_URL}</p>
      <SignInForm />
      <p class="quiet">{WORDS.session.forgotten}</p>
    </main>
  )
}

/** Over the page, which stays as it is. */
export function SignInDialog() {
  const { asks = 'ended', user } = useSession()
  return (
    <Dialog title={WORDS.session.again} onClose={asks === 'wanted' ? cancelSignIn : undefined}>
      <p>{WORDS.session[asks]}</p>
      <SignInForm username={user?.username ?? ''} />
      <p class="quiet">{WORDS.session.otherUser(user?.username ?? '')}</p>
      {asks !== 'wanted' && (
        <button type="button" class="small" onClick={forget}>
          {WORDS.session.leave}
        </button>
      )}
    </Dialog>
  )
}

/** Two minutes before the session ends, by its own age or because nobody is there. */
export function SessionBar() {
  const [ending, setEnding] = useState<Ending>()
  useEffect(() => {
    const timer = setInterval(() => {
      const next = nextEnding()
      setEnding(next && next.inMs < WARNING_MS ? next : undefined)
    }, 1_000)
    return () => clearInterval(timer)
  }, [])
  if (!ending || currentSession().token === undefined) return null
  const left = clockText(ending.inMs)
  const isIdle = ending.kind === 'idle'
  return (
    <div class="bar warn" role="status">
      <p>{isIdle ? WORDS.session.idleIn(left) : WORDS.session.endsIn(left)}</p>
      <button type="button" onClick={isIdle ? stayActive : askToSignIn}>
        {isIdle ? WORDS.session.stay : WORDS.session.again}
      </button>
    </div>
  )
}

export function UserMenu() {
  const { user } = useSession()
  const theme = useChosenTheme()
  const [asksEverywhere, setAsksEverywhere] = useState(false)
  if (!user) return null
  const signOut = async () => {
    // The browser forgets the session in any case. Without an answer the service ends it by its age.
    await call('logout', {}).catch(() => undefined)
    forget()
  }
  return (
    <section class="user" aria-label={WORDS.session.yours}>
      <p>
        <strong>{user.username}</strong>
        <br />
        <span class="quiet">{WORDS.session.roles[user.role]}</span>
      </p>
      <SelectField
        label={WORDS.app.theme}
        value={theme}
        onChange={(value: string) => chooseTheme(value as Theme)}
        options={THEMES.map((one) => [one, WORDS.app.themes[one]])}
      />
      <button type="button" class="small" onClick={signOut}>
        {WORDS.session.signOut}
      </button>
      <button type="button" class="small" onClick={() => setAsksEverywhere(true)}>
        {WORDS.session.signOutEverywhere}
      </button>
      <p class="quiet">{WORDS.app.utc}</p>
      {asksEverywhere && (
        <Confirm
          title={WORDS.session.signOutEverywhere}
          action={WORDS.session.signOutEverywhere}
          consequence={<p>{WORDS.session.signOutConsequence}</p>}
          onConfirm={() => call('logoutEverywhere', {}).then(forget)}
          onClose={() => setAsksEverywhere(false)}
        />
      )}
    </section>
  )
}
