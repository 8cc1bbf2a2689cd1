/** Users of the console and the Admin API: who they are, what they may do, and their sessions; and API tokens for machines. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { Badge, Button, Empty } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { Action, CloseButton, Dialog } from '../components/dialog.tsx'
import type { FormFields } from '../components/form.tsx'
import { listPage } from '../components/list.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { tagsOf } from '../format.ts'
import { ROLE_HELP, ROLE_OPTIONS, ROLES, roleText } from '../labels.ts'
import { endOfDay } from '../preferences.ts'
import { currentSession, type Role } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { SessionTable } from './profile.tsx'

type User = Output<'listUsers'>[number]
const PLACE = '/users'
const TOKENS_PLACE = '/tokens'

/** The choice of a role, with the tags of a registrar. */
const roleFields = (role: Role, scope: readonly string[] = []) =>
  ({
    role: { label: 'Role', value: role, options: ROLE_OPTIONS, help: ({ role = '' }) => ROLE_HELP[role] },
    scope: {
      label: 'Tags',
      value: scope.join(', '),
      help: 'Of accounts and credentials, with commas between, such as team-a, plant-7.',
      required: true,
      when: ({ role }) => role === 'registrar',
    },
  }) as const satisfies FormFields

/** The members that the Admin API takes. */
const roleBody = ({ role, scope }: Readonly<Record<'role' | 'scope', string>>) => ({
  role: role as Role,
  scope: role === 'registrar' ? tagsOf(scope) : [],
})

/** Shows a password once, under the words that say whose it is. */
const showPassword = (title: string, password: string) =>
  keepSecret({ id: title, place: PLACE, title, secrets: [['Password', password]] })

export const UsersPage = listPage('listUsers', {
  title: 'Users',
  rowKey: ({ id, updated_at }) => `${id} ${updated_at}`,
  columns: columnsOf,
  actions: (reload) =>
    can('createUser') && (
      <>
        <UnlockAddress />
        <CreateUser onCreated={reload} />
      </>
    ),
  above: () => <OnceShown place={PLACE} />,
})

function columnsOf(reload: () => void): Column<User>[] {
  return [
    { head: 'Username', member: 'username', sorts: true },
    { head: 'Mail address', member: 'email', kind: 'word', sorts: true },
    { head: 'Role', kind: 'word', by: ({ role }) => ROLES[role], cell: roleText },
    {
      head: 'Status',
      cell: ({ enabled }) => <Badge tone={enabled ? 'good' : 'plain'}>{enabled ? 'enabled' : 'disabled'}</Badge>,
    },
    { head: 'Last login', member: 'last_login_at', kind: 'instant' },
    {
      head: 'Actions',
      // Users do not change or delete themselves here.
      cell: (user) =>
        can('updateUser') && user.id !== currentSession().user?.id && <UserActions user={user} reload={reload} />,
    },
  ]
}

interface UserProps {
  user: User
  reload: () => void
}

function UserActions({ user, reload }: UserProps) {
  const { id, username, enabled } = user
  const params = { user_id: id }
  return (
    <div class="actions left">
      <EditUser user={user} reload={reload} />
      <SessionsOfUser user={user} />
      <ChangeRole user={user} reload={reload} />
      <Action
        kind="small"
        action="New password"
        label={`New password for ${username}`}
        title={`New password for ${username}`}
        danger
        consequence="The old password, all sessions and all API tokens of the user end at once."
        onConfirm={() => call('resetPassword', { params })}
        onDone={({ password }) => {
          showPassword(`The new password of ${username}`, password)
          reload()
        }}
      />
      <Action
        kind="small"
        action="Unlock"
        of={username}
        consequence="Forgets the failed logins under this name, so that the user may sign in again at once."
        onConfirm={() => call('unlockUser', { params })}
        done={(reply) => unlockedText(username, reply)}
      />
      <Action
        kind="small"
        action={enabled ? 'Disable' : 'Enable'}
        of={username}
        danger={enabled}
        consequence={
          enabled
            ? 'The user can no longer sign in; sessions and API tokens are refused at once.'
            : 'The user may sign in again, with the rights of the role.'
        }
        onConfirm={() => call('updateUser', { params, body: { enabled: !enabled } })}
        onDone={reload}
      />
      <Action
        kind="small"
        action="Delete"
        of={username}
        danger
        typed={username}
        consequence="All sessions and API tokens of the user end. It cannot be undone; the audit log stays."
        onConfirm={() => call('deleteUser', { params })}
        onDone={reload}
      />
    </div>
  )
}

const ChangeRole = ({ user: { id, username, role, scope }, reload }: UserProps) => (
  <Action
    kind="small"
    text="Change role"
    label={`Change role of ${username}`}
    title={`Change role of ${username}`}
    action="Change"
    danger={(wanted) => wanted.role === 'admin'}
    consequence="It applies at once. Operations that the user has started continue."
    fields={roleFields(role, scope)}
    onConfirm={(wanted) => call('updateUser', { params: { user_id: id }, body: roleBody(wanted) })}
    onDone={reload}
  />
)

const unlockedText = (subject: string, { unlocked }: { unlocked: boolean }) =>
  unlocked ? `${subject} is unlocked.` : `${subject} was not locked: no failed login is counted.`

/** Failed logins lock their address, too, for every user behind it. */
const UnlockAddress = () => (
  <Action
    text="Unlock an address"
    title="Unlock an address"
    action="Unlock"
    consequence="Forgets the failed logins from an address, so that users behind it may sign in again."
    fields={{
      address: { label: 'IP address', help: 'An IPv6 address counts as its /64 network.', required: true },
    }}
    onConfirm={async (typed) => {
      const address = typed.address.trim()
      return { address, reply: await call('unlockAddress', { body: { address } }) }
    }}
    done={({ address, reply }) => unlockedText(address, reply)}
  />
)

const NAMES = {
  username: { label: 'Username', required: true },
  email: { label: 'Mail address', type: 'email', required: true },
} as const

const CreateUser = ({ onCreated }: { onCreated: () => void }) => (
  <Action
    kind="primary"
    action="Create a user"
    fields={{ ...NAMES, ...roleFields('auditor') }}
    onConfirm={(typed) => call('createUser', { body: { ...typed, ...roleBody(typed) } })}
    onDone={({ username, password }) => {
      showPassword(`The user ${username}`, password)
      onCreated()
    }}
  />
)

const EditUser = ({ user: { id, username, email }, reload }: UserProps) => (
  <Action
    kind="small"
    text="Edit"
    label={`Edit ${username}`}
    action="Save"
    title={`Name and mail address of ${username}`}
    consequence="The user signs in with the new name from now on. The audit log keeps who it was."
    fields={{ username: { ...NAMES.username, value: username }, email: { ...NAMES.email, value: email } }}
    onConfirm={(body) => call('updateUser', { params: { user_id: id }, body })}
    onDone={reload}
  />
)

function SessionsOfUser({ user: { id, username } }: { user: User }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button kind="small" text="Sessions" label={`Sessions of ${username}`} onClick={() => setOpen(true)} />
      {isOpen && (
        <Dialog title={`Sessions of ${username}`} wide onClose={() => setOpen(false)}>
          <OthersSessions userId={id} />
          <CloseButton onClose={() => setOpen(false)} />
        </Dialog>
      )}
    </>
  )
}

function OthersSessions({ userId }: { userId: string }) {
  const loaded = useApi('listSessionsOfUser', { params: { user_id: userId } })
  const end = (session_id: string) => call('endSessionOfUser', { params: { user_id: userId, session_id } })
  return <SessionTable loaded={loaded} needs="endSessionOfUser" end={end} />
}

function TokenStatus({ revoked_at, expires_at }: Output<'listTokens'>[number]) {
  if (revoked_at !== null) return <Badge tone="bad">revoked</Badge>
  if (expires_at !== null && Date.parse(expires_at) < Date.now()) return <Badge>expired</Badge>
  return <Badge tone="good">active</Badge>
}

export const TokensPage = listPage('listTokens', {
  title: 'API tokens',
  about: 'For scripts and metrics: a token has the rights of its role, and never more than its maker.',
  rowKey: ({ id, revoked_at }) => `${id} ${revoked_at}`,
  columns: (reload) => [
    { head: 'Name', member: 'name', kind: 'wide', sorts: true },
    { head: 'Role', by: ({ role }) => ROLES[role], cell: roleText },
    { head: 'Status', cell: (token) => <TokenStatus {...token} /> },
    { head: 'Expires', member: 'expires_at', kind: 'time' },
    { head: 'Last used', member: 'last_used_at', kind: 'time' },
    {
      head: 'Actions',
      cell: ({ id, name, revoked_at }) =>
        revoked_at === null && (
          <Action
            needs="revokeToken"
            kind="small"
            action="Revoke"
            of={name}
            danger
            consequence="Scripts that use it are refused from now on. It cannot be undone."
            onConfirm={() => call('revokeToken', { params: { token_id: id } })}
            done="The token is revoked."
            onDone={reload}
          />
        ),
    },
  ],
  actions: (reload) => <CreateToken onMade={reload} />,
  empty: (reload) => (
    <Empty title="No API tokens">
      <CreateToken onMade={reload} />
    </Empty>
  ),
  above: () => <OnceShown place={TOKENS_PLACE}>{() => <p>Send it as Authorization: Bearer …</p>}</OnceShown>,
})

const CreateToken = ({ onMade }: { onMade: () => void }) => (
  <Action
    needs="createToken"
    kind="primary"
    action="Create a token"
    fields={{
      name: { label: 'Name', required: true },
      ...roleFields('auditor'),
      expires_at: {
        label: 'Expires',
        help: 'At the end of that day. Empty: it does not expire, or 90 days after your last sign-in by your provider.',
        type: 'date',
      },
    }}
    onConfirm={({ name, expires_at, ...role }) => {
      const expiry = expires_at && { expires_at: endOfDay(expires_at) }
      return call('createToken', { body: { name, ...roleBody(role), ...expiry } })
    }}
    onDone={({ id, name, token }) => {
      keepSecret({ id, place: TOKENS_PLACE, title: `The token ${name}`, secrets: [['Token', token]] })
      onMade()
    }}
  />
)
