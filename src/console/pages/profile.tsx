/** The profile of the user who is signed in: mail address, password, passkeys, sessions. */

import { call, isFactorMissing, type OperationId, type Output } from '../api.ts'
import { Badge, Facts, FormError, Ready, Time } from '../components/basics.tsx'
import { type Column, factsOf } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { counted } from '../format.ts'
import { roleText } from '../labels.ts'
import { addPasskey, elsewhere, workHere } from '../passkeys.ts'
import { useStore } from '../store.ts'
import { forget, noteUser } from '../stored-session.ts'
import { type Loaded, useApi } from '../use-api.ts'

const PLACE = '/profile'
type Me = Output<'getMe'>

const FACTS: readonly Column<Me>[] = [
  { head: 'Username', member: 'username' },
  { head: 'Mail address', member: 'email' },
  { head: 'Role', cell: roleText },
  { head: 'Last login', member: 'last_login_at', kind: 'time' },
  { head: 'Created', member: 'created_at', kind: 'time' },
]

export function ProfilePage() {
  const loaded = useApi('getMe', {})
  const sessions = useApi('listMySessions', {})
  return (
    <Page title="Your profile">
      <Ready loaded={loaded}>
        {(me) => (
          <>
            <Facts rows={factsOf(me, FACTS)} />
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

const MailAddress = ({ email, onDone }: { email: string; onDone: () => void }) => (
  <Action
    action="Change the mail address"
    consequence="Alarms and mails about your account go to the new address."
    fields={{ email: { label: 'Mail address', type: 'email', required: true, value: email } }}
    onConfirm={(body) => call('updateMe', { body })}
    onDone={(me) => {
      noteUser(me)
      onDone()
    }}
  />
)

const PASSWORD = { type: 'password', required: true } as const
const CURRENT = { ...PASSWORD, label: 'Current password', autoComplete: 'current-password' } as const
const NEW = { ...PASSWORD, autoComplete: 'new-password' } as const

const OwnPassword = ({ onDone }: { onDone: () => void }) => (
  <Action
    action="Choose a new password"
    consequence="Your other sessions end. API tokens stay."
    fields={{
      current_password: CURRENT,
      new_password: {
        ...NEW,
        label: 'New password',
        help: 'At least 15 characters. A few words that do not belong together are fine.',
      },
      again: { ...NEW, label: 'New password again' },
    }}
    onConfirm={async ({ again, ...body }) => {
      if (body.new_password !== again) throw new FormError('again', 'The new passwords differ.')
      return call('changeMyPassword', { body })
    }}
    done={({ ended_sessions: ended }) =>
      `Your password is changed; ${counted(ended, 'other session has', 'other sessions have')} ended.`
    }
    onDone={onDone}
  />
)

const GeneratedPassword = () => (
  <Action
    action="Generate a new password"
    danger
    consequence="The old password and all your sessions end, this one included. You sign in with the new one."
    fields={{ current_password: CURRENT }}
    onConfirm={(body) => call('resetMyPassword', { body })}
    onDone={({ password }) => {
      const secrets = [['Password', password]] as const
      keepSecret({ id: 'password', place: PLACE, title: 'Your new password', secrets, isForSignIn: true })
    }}
  />
)

type Passkey = Output<'listMyPasskeys'>[number]

const passkeyColumns = (reload: () => void): Column<Passkey>[] => [
  { head: 'Name', member: 'name', kind: 'wide' },
  { head: 'Registered', member: 'created_at', kind: 'time' },
  { head: 'Last used', member: 'last_used_at', kind: 'time' },
  {
    head: 'Actions',
    cell: ({ id: passkey_id, name }) => (
      <div class="actions left">
        <Action
          kind="small"
          text="Rename"
          label={`Rename the passkey ${name}`}
          action="Save"
          title={`Rename the passkey ${name}`}
          fields={{ name: { label: 'Name', required: true, value: name } }}
          onConfirm={(body) => call('renamePasskey', { params: { passkey_id }, body })}
          onDone={reload}
        />
        <Action
          kind="small"
          action="Remove"
          of={`the passkey ${name}`}
          danger
          consequence="It no longer signs you in here. Remove it from the device or the password manager, too."
          onConfirm={() => call('removePasskey', { params: { passkey_id } })}
          done="The passkey is removed."
          onDone={reload}
        />
      </div>
    ),
  },
]

function OwnPasskeys() {
  const loaded = useApi('listMyPasskeys', {})
  const { data: ways } = useApi('getSignInMethods', {})
  return (
    <Section title="Your passkeys">
      {useStore(isFactorMissing) && (
        <p class="bar warn" role="alert">
          A second factor is required here. Register a passkey to go on.
        </p>
      )}
      <p class="quiet">
        A passkey signs you in without a password, by fingerprint, face or PIN. Once you have one, it is asked for
        behind your password, too. Have two: only an operator at the host can help who has lost them all.
      </p>
      <Ready loaded={loaded}>
        {(passkeys) => (
          <Table
            caption="Your passkeys"
            rows={passkeys}
            columns={passkeyColumns(loaded.reload)}
            empty={<p class="quiet">No passkeys</p>}
          />
        )}
      </Ready>
      {ways?.passkeys === false && (
        <p class="quiet">Passkeys need a console at a host name with HTTPS: see admin_api.console_url.</p>
      )}
      {elsewhere(ways) && (
        <p class="quiet">Passkeys work at {elsewhere(ways)} alone: open the console there to add one.</p>
      )}
      {workHere(ways) && (
        <div class="actions left">
          <Action
            action="Add a passkey"
            consequence="From now on it is asked for behind your password."
            fields={{ name: { label: 'Name', required: true, placeholder: 'Security key, blue' } }}
            onConfirm={({ name }) => addPasskey(name)}
            done={({ name }) => `The passkey ${name} is registered.`}
            onDone={loaded.reload}
          />
        </div>
      )}
    </Section>
  )
}

type Session = Output<'listMySessions'>[number]

interface SessionTableProps {
  loaded: Loaded<readonly Session[]>
  /** The operation that ends one. */
  needs: OperationId
  end: (id: string) => Promise<unknown>
}

const METHODS = { password: 'password', passkey: 'passkey', oidc: 'OpenID Connect' }

const columnsOf = ({ loaded, needs, end }: SessionTableProps): readonly Column<Session>[] => [
  {
    head: 'Address',
    kind: 'fixed',
    cell: ({ ip_address, is_current }) => (
      <>
        {ip_address} {is_current && <Badge tone="good">this one</Badge>}
      </>
    ),
  },
  { head: 'Browser', kind: 'wide', cell: ({ user_agent }) => user_agent ?? 'not known' },
  { head: 'Signed in by', cell: ({ methods }) => methods.map((method) => METHODS[method]).join(', ') },
  { head: 'Began', member: 'created_at', kind: 'time' },
  {
    head: 'Last proof of identity',
    kind: 'fixed',
    cell: ({ authenticated_at }) => (authenticated_at === null ? 'not known' : <Time at={authenticated_at} />),
  },
  { head: 'Ends', member: 'expires_at', kind: 'time' },
  {
    head: 'Actions',
    cell: ({ id, is_current, ip_address }) =>
      !is_current && (
        <Action
          needs={needs}
          kind="small"
          action="End"
          label={`End the session from ${ip_address}`}
          title="End this session"
          consequence="Its browser has to sign in again at the next request."
          onConfirm={() => end(id)}
          done="The session has ended."
          onDone={loaded.reload}
        />
      ),
  },
]

export const SessionTable = (props: SessionTableProps) => (
  <Ready loaded={props.loaded}>
    {(sessions) => (
      <Table caption="Sessions" rows={sessions} columns={columnsOf(props)} empty={<p class="quiet">No sessions</p>} />
    )}
  </Ready>
)
