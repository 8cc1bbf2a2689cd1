/** Administrators and auditors. */

import { useState } from 'preact/hooks'
import { call, can, useList } from '../api.ts'
import { Allowed, Badge, fieldError, Problem, Time } from '../components/basics.tsx'
import { Dialog, ShownOnce } from '../components/dialog.tsx'
import { SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { ROLE_OPTIONS, ROLES } from '../labels.ts'
import type { PageProps } from '../router.ts'
import { type Role, useSession } from '../session.ts'
import {
  otherRole,
  ROLE_ACTIONS,
  UnlockAddressDialog,
  type User,
  type UserDeed,
  UserDialog,
  type WithPassword,
} from './user-dialogs.tsx'

export function UsersPage({ entry }: PageProps) {
  const list = useList('listUsers', {}, entry)
  const [open, setOpen] = useState<'create' | 'address'>()
  const [shown, setShown] = useState<{ title: string; password: string }>()
  const [chosen, setChosen] = useState<{ user: User; deed: UserDeed }>()
  const { user: me } = useSession()
  return (
    <Page
      title="Users"
      actions={
        <Allowed to="createUser">
          <button type="button" onClick={() => setOpen('address')}>
            Unlock an address
          </button>
          <button type="button" class="primary" onClick={() => setOpen('create')}>
            Create a user
          </button>
        </Allowed>
      }
    >
      <List
        caption="Users"
        list={list}
        rowKey={({ id, updated_at }) => `${id} ${updated_at}`}
        columns={columnsOf(me?.id, (user, deed) => setChosen({ user, deed }))}
      />
      {open === 'address' && <UnlockAddressDialog onClose={() => setOpen(undefined)} />}
      {open === 'create' && (
        <CreateDialog
          onClose={() => setOpen(undefined)}
          onMade={({ username, password }) => {
            setOpen(undefined)
            setShown({ title: `The user ${username}`, password })
            list.reload()
          }}
        />
      )}
      {chosen && (
        <UserDialog
          {...chosen}
          onClose={() => setChosen(undefined)}
          onChanged={list.reload}
          onPassword={({ username, password }) => setShown({ title: `The new password of ${username}`, password })}
        />
      )}
      {shown && (
        <ShownOnce title={shown.title} secrets={[['Password', shown.password]]} onClose={() => setShown(undefined)} />
      )}
    </Page>
  )
}

/** Nobody changes or deletes the own user. */
function columnsOf(me: string | undefined, choose: (user: User, deed: UserDeed) => void): Column<User>[] {
  const isOther = ({ id }: User) => id !== me
  return [
    { head: 'Username', cell: ({ username }) => username },
    { head: 'Mail address', kind: 'word', cell: ({ email }) => email },
    {
      head: 'Role',
      cell: ({ role }) => ROLES[role],
    },
    {
      head: 'Status',
      cell: ({ enabled }) => <Badge tone={enabled ? 'good' : 'plain'}>{enabled ? 'enabled' : 'disabled'}</Badge>,
    },
    {
      head: 'Last login',
      kind: 'fixed',
      cell: ({ last_login_at }) => <Time at={last_login_at} relative={false} />,
    },
    {
      head: 'Actions',
      cell: (user) =>
        can('updateUser') && isOther(user) && <RowActions user={user} choose={(deed) => choose(user, deed)} />,
    },
  ]
}

interface RowActionsProps {
  user: User
  choose: (deed: UserDeed) => void
}

function RowActions({ user: { username, enabled, role }, choose }: RowActionsProps) {
  const other = otherRole(role)
  const access = enabled ? 'Disable' : 'Enable'
  const actions = [
    ['New password', `New password for ${username}`, 'reset'],
    ['Unlock', `Unlock ${username}`, 'unlock'],
    [ROLE_ACTIONS[other], `${ROLE_ACTIONS[other]}: ${username}`, 'role'],
    [access, `${access} ${username}`, 'access'],
    ['Delete', `Delete ${username}`, 'delete'],
  ] as const
  return (
    <div class="actions left">
      {actions.map(([text, label, deed]) => (
        <button type="button" class="small" key={text} aria-label={label} onClick={() => choose(deed)}>
          {text}
        </button>
      ))}
    </div>
  )
}

function CreateDialog({ onClose, onMade }: { onClose: () => void; onMade: (made: WithPassword) => void }) {
  const [username, setUsername] = useState('')
  const [email, setEmail] = useState('')
  const [role, setRole] = useState<Role>('auditor')
  const { submit, error, isBusy } = useSubmit(async () =>
    onMade(await call('createUser', { body: { username, email, role } })),
  )
  return (
    <Dialog title="Create a user" onClose={onClose}>
      <form onSubmit={submit}>
        <TextField
          label="Username"
          value={username}
          onChange={setUsername}
          required
          error={fieldError(error, 'username')}
        />
        <TextField
          label="Mail address"
          type="email"
          value={email}
          onChange={setEmail}
          required
          error={fieldError(error, 'email')}
        />
        <SelectField
          label="Role"
          help="Auditors can read; administrators can also change."
          value={role}
          options={ROLE_OPTIONS}
          onChange={(chosen) => setRole(chosen as Role)}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Create a user
          </button>
        </div>
      </form>
    </Dialog>
  )
}
