/** Administrators and auditors, and the profile of the user who is signed in. */

import { useState } from 'preact/hooks'
import { call, can, type Output, useApi, useList } from '../api.ts'
import { Badge, Facts, Ready, Time } from '../components/basics.tsx'
import { Action, ShownOnce } from '../components/dialog.tsx'
import { SelectField, TextField, useForm } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { Page, tell } from '../components/page.tsx'
import type { Column } from '../components/table.tsx'
import { ROLE_OPTIONS, ROLES } from '../labels.ts'
import type { PageProps } from '../router.ts'
import { forget, type Role, useSession } from '../stored-session.ts'

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
  { head: 'Role', by: ({ role }) => ROLES[role], cell: ({ role }) => ROLES[role] },
  {
    head: 'Status',
    cell: ({ enabled }) => <Badge tone={enabled ? 'good' : 'plain'}>{enabled ? 'enabled' : 'disabled'}</Badge>,
  },
  {
    head: 'Last login',
    kind: 'fixed',
    by: ({ last_login_at }) => last_login_at,
    cell: ({ last_login_at }) => <Time at={last_login_at} relative={false} />,
  },
  {
    head: 'Actions',
    cell: (user) =>
      can('updateUser') &&
      user.id !== me && (
        <div class="actions left">
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

const ROLE_CHANGES = {
  admin: {
    action: 'Make administrator',
    does: 'May then change everything: revoke certificates, stop signing, make and delete users.',
  },
  auditor: {
    action: 'Make auditor',
    does: 'May then read only. Operations that the user has started continue.',
  },
}

function actionsOn({ id, username, role, enabled }: User, reload: () => void, show: Show): UserAction[] {
  const params = { user_id: id }
  const other = role === 'admin' ? 'auditor' : 'admin'
  const update = (body: { role: Role } | { enabled: boolean }) => call('updateUser', { params, body }).then(reload)
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
      ...ROLE_CHANGES[other],
      title: `${ROLE_CHANGES[other].action}: ${username}`,
      danger: other === 'admin',
      onConfirm: () => update({ role: other }),
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
  const { values, field, reset } = useForm({ username: '', email: '', role: 'auditor' })
  return (
    <Action
      kind="primary"
      action="Create a user"
      onOpen={reset}
      onConfirm={async () => {
        const { username, password } = await call('createUser', { body: { ...values, role: values.role as Role } })
        show(`The user ${username}`, password)
      }}
    >
      {(error) => (
        <>
          <TextField label="Username" required {...field('username', error)} />
          <TextField label="Mail address" type="email" required {...field('email', error)} />
          <SelectField
            label="Role"
            help="Auditors can read; administrators can also change."
            options={ROLE_OPTIONS}
            {...field('role', error)}
          />
        </>
      )}
    </Action>
  )
}

/** The profile of the user who is signed in. */
export function ProfilePage() {
  const loaded = useApi('getMe', {})
  const { values, field, reset } = useForm({ current: '' })
  const [made, setMade] = useState<Output<'resetMyPassword'>>()
  return (
    <Page title="Your profile">
      <Ready loaded={loaded}>
        {(me) => (
          <Facts
            rows={[
              ['Username', me.username],
              ['Mail address', me.email],
              ['Role', ROLES[me.role]],
              ['Last login', <Time key="login" at={me.last_login_at} />],
              ['Created', <Time key="created" at={me.created_at} />],
            ]}
          />
        )}
      </Ready>
      <div class="actions left">
        <Action
          action="Generate a new password"
          danger
          consequence={
            <p>The old password and all your sessions end, this one included. You sign in with the new one.</p>
          }
          onOpen={reset}
          onConfirm={async () => setMade(await call('resetMyPassword', { body: { current_password: values.current } }))}
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
      </div>
      {made && <ShownOnce title="Your new password" secrets={[['Password', made.password]]} onClose={forget} />}
    </Page>
  )
}
