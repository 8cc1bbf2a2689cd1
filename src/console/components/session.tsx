/**
 * Signing in and out: the page before, the dialog over the page, the ways beside the password, the warning, the user's menu;
 * and what a grave act asks for over the page: the password once more, or the reason for another person.
 */

import { useEffect, useRef, useState } from 'preact/hooks'
import { BASE_URL, call, useQuestion } from '../api.ts'
import { clockText } from '../format.ts'
import { roleText } from '../labels.ts'
import { clearAddress, finishOidc, isFromProvider, isOfProvider, START_URL, startOidc } from '../oidc.ts'
import { elsewhere, finishByPasskey, showPasskey, signInByPasskey, workHere } from '../passkeys.ts'
import { chooseTheme, THEMES, type Theme, useChosenTheme } from '../preferences.ts'
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
import { useApi } from '../use-api.ts'
import { Button, Problem } from './basics.tsx'
import { Action, Confirm, Dialog } from './dialog.tsx'
import { Fields, initialOf, SelectField, useForm, useSubmit, WorkButton } from './form.tsx'
import { Keyboard } from './keyboard.tsx'
import { EnvironmentName, titleOf } from './page.tsx'

const SIGN_IN = {
  username: { label: 'Username', required: true, autoComplete: 'username' },
  password: { label: 'Password', type: 'password', required: true, autoComplete: 'current-password' },
} as const

function SignInForm({ username: known = '' }: { username?: string }) {
  const { values, change } = useForm({ ...initialOf(SIGN_IN), username: known })
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
      <Fields fields={SIGN_IN} values={values} onChange={change} error={error} />
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

/** It lies over the page, which stays as it is. */
export function SignInDialog() {
  const { asks = 'ended', user } = useSession()
  return (
    <Dialog title="Sign in again" onClose={asks === 'wanted' ? cancelSignIn : undefined}>
      <p>{WHY_SIGN_IN[asks]}</p>
      <SignInForm username={user?.username ?? ''} />
      <OtherWays isOverPage />
      <p class="quiet">A user other than {user?.username ?? ''} starts with a fresh page.</p>
      {asks !== 'wanted' && <Button kind="small" text="Leave this page" onClick={forget} />}
    </Dialog>
  )
}

interface OtherWaysProps {
  /** The page below keeps what was typed, so that the provider gets a tab of its own. */
  isOverPage?: boolean
}

function OtherWays({ isOverPage = false }: OtherWaysProps) {
  const { data, error: unread, reload } = useApi('getSignInMethods', {})
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
      {workHere(data) && <WorkButton text="Sign in with a passkey" work={signInByPasskey} />}
      {elsewhere(data) && !isOverPage && <p class="quiet">Passkeys work at {elsewhere(data)} alone.</p>}
      <ProviderWay isOverPage={isOverPage} />
    </div>
  )
}

function ProviderWay({ isOverPage = false }: OtherWaysProps) {
  const { data } = useApi('getSignInMethods', {})
  if (!data?.oidc) return null
  const text = `Sign in with ${data.oidc.name}`
  return isOverPage ? (
    <a class="button" href={START_URL} target="_blank" rel="noopener">
      {text} in a new tab
    </a>
  ) : (
    <WorkButton text={text} work={() => startOidc()} />
  )
}

/** Begins or ends a sign-in at a provider, as the address of this tab says. */
function ProviderReply() {
  const [error, setError] = useState<unknown>()
  const [isAtWork, setAtWork] = useState(isOfProvider())
  useEffect(() => {
    if (!isAtWork) return
    // A tab that another page has opened is to prove who the user is.
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

/** Warns two minutes before the session ends, by its age or by the user's absence. */
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
      <Button text={isIdle ? 'Stay signed in' : 'Sign in again'} onClick={isIdle ? stayActive : askToSignIn} />
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
      <Button kind="small" text="Sign out" onClick={signOut} />
      <Action
        kind="small"
        action="Sign out everywhere"
        consequence="Ends all your sessions, in this browser and in others. API tokens stay."
        onConfirm={() => call('logoutEverywhere', {})}
        onDone={forget}
      />
    </section>
  )
}

export function QuestionDialog() {
  const question = useQuestion()
  if (!question) return null
  return question.kind === 'identity' ? <IdentityQuestion {...question} /> : <ReasonQuestion {...question} />
}

type QuestionProps = NonNullable<ReturnType<typeof useQuestion>>

const PASSWORD = {
  password: { label: 'Password', type: 'password', autoComplete: 'current-password', required: true },
} as const

function IdentityQuestion({ answer, cancel }: QuestionProps) {
  const { token } = useSession()
  const asked = useRef(token)
  // A sign-in in another tab answers the question, too.
  useEffect(() => {
    if (token !== undefined && token !== asked.current) answer('')
  }, [token])
  const { data: ways } = useApi('getConfirmOptions', {})
  // A user who has a passkey confirms with it.
  const passkey = ways?.passkey
  return (
    <Confirm
      title="Confirm it is you"
      action="Confirm"
      consequence="Your sign-in is not recent enough for this. Nothing that you typed is lost."
      fields={passkey ? {} : PASSWORD}
      onConfirm={async ({ password = '' }: { password?: string }) => {
        const body = passkey ? { credential: await showPasskey(passkey) } : { password }
        await call('confirmSignIn', { body })
        answer('')
      }}
      onClose={cancel}
    >
      {passkey && <p>Your browser asks for your passkey.</p>}
      <ProviderWay isOverPage />
    </Confirm>
  )
}

const ReasonQuestion = ({ message, answer, cancel }: QuestionProps) => (
  <Confirm
    title="Another person must approve"
    action="Ask for approval"
    consequence={
      <>
        <p>{message}.</p>
        <p>Nothing is done before that. You see the decision under Approvals.</p>
      </>
    }
    fields={REASON}
    onConfirm={async ({ reason }) => answer(reason)}
    onClose={cancel}
  />
)

const REASON = {
  reason: {
    label: 'Reason for approval',
    help: 'Who decides reads it, and so does the audit log.',
    required: true,
  },
} as const
