/** Users of the console and the Admin API: who they are, what they may do, and their sessions. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { Badge } from '../components/basics.tsx'
import { Action, CloseButton, Dialog } from '../components/dialog.tsx'
import { TextField, useForm } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { tell } from '../components/page.tsx'
import { RoleFields, type RoleValues, roleBody } from '../components/role-fields.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { ROLES, roleText } from '../labels.ts'
import type { PageProps } from '../router.ts'
import { useSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'
import { SessionTable } from './sessions.tsx'

type User = Output<'listUsers'>[number]
/** A password that is shown once, and above it whose it is. */
const PLACE = '/users'
type Show = (title: string, password: string) => void

export function UsersPage({ entry }: PageProps) {
  const list = useList('listUsers', {}, entry)
  const { user: me } = useSession()
  const show: Show = (title, password) => {
    keepSecret({ id: title, place: PLACE, title, secrets: [['Password', password]] })
    list.reload()
  }
  return (
    <ListPage
      title="Users"
      actions={
        can('createUser') && (
          <>
            <UnlockAddress />
            <CreateUser show={show} />
          </>
        )
      }
      list={list}
      rowKey={({ id, updated_at }) => `${id} ${updated_at}`}
      columns={columnsOf(me?.id, list.reload, show)}
    >
      <OnceShown place={PLACE} />
    </ListPage>
  )
}

/** Users do not change or delete themselves here. */
const columnsOf = (me: string | undefined, reload: () => void, show: Show): Column<User>[] => [
  { head: 'Username', by: ({ username }) => username, cell: ({ username }) => username },
  { head: 'Mail address', kind: 'word', by: ({ email }) => email, cell: ({ email }) => email },
  { head: 'Role', kind: 'word', by: ({ role }) => ROLES[role], cell: roleText },
  {
    head: 'Status',
    cell: ({ enabled }) => <Badge tone={enabled ? 'good' : 'plain'}>{enabled ? 'enabled' : 'disabled'}</Badge>,
  },
  timeColumn('Last login', 'last_login_at', { relative: false }),
  {
    head: 'Actions',
    cell: (user) =>
      can('updateUser') &&
      user.id !== me && (
        <div class="actions left">
          <EditUser user={user} onDone={reload} />
          <SessionsOfUser user={user} />
          <ChangeRole user={user} onChanged={reload} />
          {actionsOn(user, reload, show).map(({ action, title, does, ...confirm }) => (
            <Action
              key={action}
              kind="small"
              action={action}
              label={title}
              title={title}
              consequence={<p>{does}</p>}
              {...confirm}
            />
          ))}
        </div>
      ),
  },
]

interface UserAction {
  action: string
  title: string
  /** The consequence, as a sentence. */
  does: string
  danger?: boolean
  typed?: string
  onConfirm: () => Promise<unknown>
}

function ChangeRole({ user: { id, username, role, scope }, onChanged }: { user: User; onChanged: () => void }) {
  const form = useForm<RoleValues>({ role, scope: scope.join(', ') })
  return (
    <Action
      kind="small"
      text="Change role"
      label={`Change role of ${username}`}
      title={`Change role of ${username}`}
      action="Change"
      danger={form.values.role === 'admin'}
      consequence={<p>It applies at once. Operations that the user has started continue.</p>}
      onOpen={form.reset}
      onConfirm={() => call('updateUser', { params: { user_id: id }, body: roleBody(form.values) }).then(onChanged)}
    >
      {(error) => <RoleFields {...form} error={error} />}
    </Action>
  )
}

function actionsOn({ id, username, enabled }: User, reload: () => void, show: Show): UserAction[] {
  const params = { user_id: id }
  const update = (body: { enabled: boolean }) => call('updateUser', { params, body }).then(reload)
  return [
    {
      action: 'New password',
      title: `New password for ${username}`,
      does: 'The old password, all sessions and all API tokens of the user end at once.',
      danger: true,
      onConfirm: async () =>
        show(`The new password of ${username}`, (await call('resetPassword', { params })).password),
    },
    {
      action: 'Unlock',
      title: `Unlock ${username}`,
      does: 'Forgets the failed logins under this name, so that the user may sign in again at once.',
      onConfirm: async () => tellUnlocked(username, await call('unlockUser', { params })),
    },
    {
      action: enabled ? 'Disable' : 'Enable',
      title: `${enabled ? 'Disable' : 'Enable'} ${username}`,
      does: enabled
        ? 'The user can no longer sign in; sessions and API tokens are refused at once.'
        : 'The user may sign in again, with the rights of the role.',
      danger: enabled,
      onConfirm: () => update({ enabled: !enabled }),
    },
    {
      action: 'Delete',
      title: `Delete ${username}`,
      does: 'All sessions and API tokens of the user end. It cannot be undone; the audit log stays.',
      danger: true,
      typed: username,
      onConfirm: () => call('deleteUser', { params }).then(reload),
    },
  ]
}

const tellUnlocked = (subject: string, { unlocked }: { unlocked: boolean }) =>
  tell(unlocked ? `${subject} is unlocked.` : `${subject} was not locked: no failed login is counted.`)

/** Failed logins lock their address, too, for every user behind it. */
function UnlockAddress() {
  const { values, field, reset } = useForm({ address: '' })
  const address = values.address.trim()
  return (
    <Action
      text="Unlock an address"
      title="Unlock an address"
      action="Unlock"
      consequence={<p>Forgets the failed logins from an address, so that users behind it may sign in again.</p>}
      onOpen={reset}
      onConfirm={async () => tellUnlocked(address, await call('unlockAddress', { body: { address } }))}
    >
      {(error) => (
        <TextField
          label="IP address"
          help="An IPv6 address counts as its /64 network."
          required
          {...field('address', error)}
        />
      )}
    </Action>
  )
}

function CreateUser({ show }: { show: Show }) {
  const { values, field, reset } = useForm({ username: '', email: '', role: 'auditor', scope: '' })
  return (
    <Action
      kind="primary"
      action="Create a user"
      onOpen={reset}
      onConfirm={async () => {
        const { username, password } = await call('createUser', { body: { ...values, ...roleBody(values) } })
        show(`The user ${username}`, password)
      }}
    >
      {(error) => (
        <>
          <TextField label="Username" required {...field('username', error)} />
          <TextField label="Mail address" type="email" required {...field('email', error)} />
          <RoleFields values={values} field={field} error={error} />
        </>
      )}
    </Action>
  )
}

function EditUser({ user, onDone }: { user: User; onDone: () => void }) {
  const { username, email } = user
  const { values, field, reset } = useForm({ username, email })
  return (
    <Action
      kind="small"
      text="Edit"
      label={`Edit ${username}`}
      action="Save"
      title={`Name and mail address of ${username}`}
      consequence={<p>The user signs in with the new name from now on. The audit log keeps who it was.</p>}
      onOpen={reset}
      onConfirm={() => call('updateUser', { params: { user_id: user.id }, body: values }).then(onDone)}
    >
      {(error) => (
        <>
          <TextField label="Username" required {...field('username', error)} />
          <TextField label="Mail address" type="email" required {...field('email', error)} />
        </>
      )}
    </Action>
  )
}

function SessionsOfUser({ user: { id, username } }: { user: User }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" class="small" aria-label={`Sessions of ${username}`} onClick={() => setOpen(true)}>
        Sessions
      </button>
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
