/** Signing in and out: the page before, the dialog over the page, the warning, the user's menu. */

import { useEffect, useRef, useState } from 'preact/hooks'
import { BASE_URL, call } from '../api.ts'
import { EnvironmentName, titleOf } from '../environment.tsx'
import { clockText } from '../format.ts'
import { roleText } from '../labels.ts'
import { finishByPasskey } from '../passkeys.ts'
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
} from '../stored-session.ts'
import { chooseTheme, THEMES, type Theme, useChosenTheme } from '../theme.ts'
import { Problem } from './basics.tsx'
import { Action, Dialog } from './dialog.tsx'
import { SelectField, TextField, useForm, useSubmit } from './form.tsx'
import { Keyboard } from './keyboard.tsx'
import { OtherWays, ProviderReply } from './sign-in-ways.tsx'

function SignInForm({ username: known = '' }: { username?: string }) {
  const { values, field } = useForm({ username: known, password: '' })
  const { submit, error, isBusy } = useSubmit(async () => {
    const login = await call('login', { body: { ...values, username: values.username.trim() } })
    if ('token' in login) begin(login.token, login.user)
    else await finishByPasskey(login.second_factor)
  })
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    form.current?.querySelector<HTMLInputElement>(known === '' ? 'input' : 'input[type=password]')?.focus()
  }, [known])
  return (
    <form ref={form} onSubmit={submit} class="narrow">
      <TextField label="Username" required autoComplete="username" {...field('username', error)} />
      <TextField
        label="Password"
        type="password"
        required
        autoComplete="current-password"
        {...field('password', error)}
      />
      <Problem error={error} />
      <button type="submit" class="primary" disabled={isBusy}>
        {isBusy ? 'Signing in …' : 'Sign in'}
      </button>
    </form>
  )
}

export function SignInPage() {
  useEffect(() => {
    document.title = titleOf('Sign in')
  }, [])
  return (
    <main class="signin">
      <h1>Chancery</h1>
      <EnvironmentName />
      <p class="quiet">{BASE_URL}</p>
      <ProviderReply />
      <SignInForm />
      <OtherWays />
      <p class="quiet">
        Forgot your password? Another administrator can reset it, or an operator can run chancery users reset-password.
      </p>
    </main>
  )
}

const WHY_SIGN_IN = {
  ended: 'Your session has ended. Sign in to continue; nothing that you typed is lost.',
  idle: 'You were signed out after 30 minutes of inactivity. Nothing that you typed is lost.',
  wanted: 'A new sign-in starts a new session. Nothing that you typed is lost.',
}

/** Over the page, which stays as it is. */
export function SignInDialog() {
  const { asks = 'ended', user } = useSession()
  return (
    <Dialog title="Sign in again" onClose={asks === 'wanted' ? cancelSignIn : undefined}>
      <p>{WHY_SIGN_IN[asks]}</p>
      <SignInForm username={user?.username ?? ''} />
      <OtherWays isOverPage />
      <p class="quiet">A user other than {user?.username ?? ''} starts with a fresh page.</p>
      {asks !== 'wanted' && (
        <button type="button" class="small" onClick={forget}>
          Leave this page
        </button>
      )}
    </Dialog>
  )
}

/** Two minutes before the session ends, by its age or by the user's absence. */
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
      <p>{isIdle ? `You are inactive and will be signed out in ${left}.` : `Your session ends in ${left}.`}</p>
      <button type="button" onClick={isIdle ? stayActive : askToSignIn}>
        {isIdle ? 'Stay signed in' : 'Sign in again'}
      </button>
    </div>
  )
}

const THEME_NAMES = { auto: 'System', light: 'Light', dark: 'Dark' }

export function UserMenu() {
  const { user } = useSession()
  const theme = useChosenTheme()
  if (!user) return null
  const signOut = async () => {
    // The browser forgets the session in any case. Without an answer the service ends it by its age.
    const ended = await call('logout', {}).catch(() => undefined)
    forget()
    if (ended?.end_session_url !== undefined) location.assign(ended.end_session_url)
  }
  return (
    <section class="user" aria-label="Your session">
      <p>
        <strong>{user.username}</strong>
        <br />
        <span class="quiet">{roleText(user)}</span>
      </p>
      <SelectField
        label="Theme"
        value={theme}
        onChange={(value: string) => chooseTheme(value as Theme)}
        options={THEMES.map((one) => [one, THEME_NAMES[one]])}
      />
      <Keyboard />
      <button type="button" class="small" onClick={signOut}>
        Sign out
      </button>
      <Action
        kind="small"
        action="Sign out everywhere"
        consequence={<p>Ends all your sessions, in this browser and in others. API tokens stay.</p>}
        onConfirm={() => call('logoutEverywhere', {}).then(forget)}
      />
    </section>
  )
}
