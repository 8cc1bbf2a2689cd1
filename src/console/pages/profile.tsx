/** The profile of the user who is signed in: mail address, password, sessions. */

import { call } from '../api.ts'
import { Facts, FormError, Ready, Time } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField, useForm } from '../components/form.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { countText, plural } from '../format.ts'
import { roleText } from '../labels.ts'
import { forget, noteUser } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { OwnPasskeys } from './own-passkeys.tsx'
import { SessionTable } from './sessions.tsx'

const PLACE = '/profile'

export function ProfilePage() {
  const loaded = useApi('getMe', {})
  const sessions = useApi('listMySessions', {})
  return (
    <Page title="Your profile">
      <Ready loaded={loaded}>
        {(me) => (
          <>
            <Facts
              rows={[
                ['Username', me.username],
                ['Mail address', me.email],
                ['Role', roleText(me)],
                ['Last login', <Time key="login" at={me.last_login_at} />],
                ['Created', <Time key="created" at={me.created_at} />],
              ]}
            />
            <div class="actions left">
              <MailAddress email={me.email} onDone={loaded.reload} />
              <OwnPassword onDone={sessions.reload} />
              <GeneratedPassword />
            </div>
          </>
        )}
      </Ready>
      <OwnPasskeys />
      <Section title="Your sessions">
        <SessionTable
          loaded={sessions}
          needs="endMySession"
          end={(session_id) => call('endMySession', { params: { session_id } })}
        />
      </Section>
      <OnceShown place={PLACE} onClose={forget} />
    </Page>
  )
}

function MailAddress({ email, onDone }: { email: string; onDone: () => void }) {
  const { values, field, reset } = useForm({ email })
  return (
    <Action
      action="Change the mail address"
      consequence={<p>Alarms and mails about your account go to the new address.</p>}
      onOpen={reset}
      onConfirm={async () => {
        noteUser(await call('updateMe', { body: values }))
        onDone()
      }}
    >
      {(error) => <TextField label="Mail address" type="email" required {...field('email', error)} />}
    </Action>
  )
}

function OwnPassword({ onDone }: { onDone: () => void }) {
  const { values, field, reset } = useForm({ current: '', chosen: '', again: '' })
  return (
    <Action
      action="Choose a new password"
      consequence={<p>Your other sessions end. API tokens stay.</p>}
      onOpen={reset}
      onConfirm={async () => {
        if (values.chosen !== values.again) throw new FormError('again', 'The new passwords differ.')
        const body = { current_password: values.current, new_password: values.chosen }
        const { ended_sessions: ended } = await call('changeMyPassword', { body })
        tell(`Your password is changed; ${plural(countText(ended), 'other session has', 'other sessions have')} ended.`)
        onDone()
      }}
    >
      {(error) => (
        <>
          <TextField
            label="Current password"
            type="password"
            autoComplete="current-password"
            required
            {...field('current', error, 'current_password')}
          />
          <TextField
            label="New password"
            type="password"
            autoComplete="new-password"
            required
            help="At least 15 characters. A few words that do not belong together are fine."
            {...field('chosen', error, 'new_password')}
          />
          <TextField
            label="New password again"
            type="password"
            autoComplete="new-password"
            required
            {...field('again', error)}
          />
        </>
      )}
    </Action>
  )
}

function GeneratedPassword() {
  const { values, field, reset } = useForm({ current: '' })
  return (
    <Action
      action="Generate a new password"
      danger
      consequence={<p>The old password and all your sessions end, this one included. You sign in with the new one.</p>}
      onOpen={reset}
      onConfirm={async () => {
        const { password } = await call('resetMyPassword', { body: { current_password: values.current } })
        const secrets = [['Password', password]] as const
        keepSecret({ id: 'password', place: PLACE, title: 'Your new password', secrets, isForSignIn: true })
      }}
    >
      {(error) => (
        <TextField
          label="Current password"
          type="password"
          autoComplete="current-password"
          required
          {...field('current', error, 'current_password')}
        />
      )}
    </Action>
  )
}
