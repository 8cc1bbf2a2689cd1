/** Administrators and auditors. */

import { useState } from 'preact/hooks'
import { call, can, useList } from '../api.ts'
import { Allowed, Badge, fieldError, Problem, Time } from '../components/basics.tsx'
import { Dialog } from '../components/dialog.tsx'
import { SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { ShownOnce } from '../components/shown-once.tsx'
import { type Column, List } from '../components/table.tsx'
import type { PageProps } from '../router.ts'
import { type Role, useSession } from '../session.ts'
import { WORDS } from '../words.ts'
import {
  otherRole,
  UnlockAddressDialog,
  type User,
  type UserDeed,
  UserDialog,
  type WithPassword,
} from './user-dialogs.tsx'

export const ROLE_OPTIONS = (['auditor', 'admin'] as const).map((role) => [role, WORDS.session.roles[role]] as const)

export function UsersPage({ entry }: PageProps) {
  const list = useList('listUsers', {}, entry)
  const [open, setOpen] = useState<'create' | 'address'>()
  const [shown, setShown] = useState<{ title: string; password: string }>()
  const [chosen, setChosen] = useState<{ user: User; deed: UserDeed }>()
  const { user: me } = useSession()
  return (
    <Page
      title={WORDS.pages.users}
      actions={
        <Allowed to="createUser">
          <button type="button" onClick={() => setOpen('address')}>
            {WORDS.users.unlockAddress}
          </button>
          <button type="button" class="primary" onClick={() => setOpen('create')}>
            {WORDS.users.create}
          </button>
        </Allowed>
      }
    >
      <List
        caption={WORDS.pages.users}
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
            setShown({ title: WORDS.users.made(username), password })
            list.reload()
          }}
        />
      )}
      {chosen && (
        <UserDialog
          {...chosen}
          onClose={() => setChosen(undefined)}
          onChanged={list.reload}
          onPassword={({ username, password }) => setShown({ title: WORDS.users.resetMade(username), password })}
        />
      )}
      {shown && (
        <ShownOnce
          title={shown.title}
          secrets={[[WORDS.session.password, shown.password]]}
          onClose={() => setShown(undefined)}
        />
      )}
    </Page>
  )
}

/** Nobody changes or deletes the own user. */
function columnsOf(me: string | undefined, choose: (user: User, deed: UserDeed) => void): Column<User>[] {
  const isOther = ({ id }: User) => id !== me
  return [
    { head: WORDS.users.username, cell: ({ username }) => username },
    { head: WORDS.users.email, kind: 'word', cell: ({ email }) => email },
    {
      head: WORDS.users.role,
      cell: ({ role }) => WORDS.session.roles[role],
    },
    {
      head: WORDS.common.status,
      cell: ({ enabled }) => (
        <Badge tone={enabled ? 'good' : 'plain'}>{enabled ? WORDS.users.enabled : WORDS.users.disabled}</Badge>
      ),
    },
    {
      head: WORDS.users.lastLogin,
      kind: 'fixed',
      cell: ({ last_login_at }) => <Time at={last_login_at} relative={false} />,
    },
    {
      head: WORDS.common.actions,
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
  const access = enabled
    ? ([WORDS.users.disable, WORDS.users.disableOf] as const)
    : ([WORDS.users.enable, WORDS.users.enableOf] as const)
  const actions = [
    [WORDS.users.reset, WORDS.users.resetOf, () => choose('reset')],
    [WORDS.users.unlock, WORDS.users.unlockOf, () => choose('unlock')],
    [WORDS.users.roles[other], (name: string) => WORDS.users.roleOf(name, other), () => choose('role')],
    [...access, () => choose('access')],
    [WORDS.common.delete, WORDS.users.deleteOf, () => choose('delete')],
  ] as const
  return (
    <div class="actions left">
      {actions.map(([text, of, onClick]) => (
        <button type="button" class="small" key={text} aria-label={of(username)} onClick={onClick}>
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
    <Dialog title={WORDS.users.create} onClose={onClose}>
      <form onSubmit={submit}>
        <TextField
          label={WORDS.users.username}
          value={username}
          onChange={setUsername}
          required
          error={fieldError(error, 'username')}
        />
        <TextField
          label={WORDS.users.email}
          type="email"
          value={email}
          onChange={setEmail}
          required
          error={fieldError(error, 'email')}
        />
        <SelectField
          label={WORDS.users.role}
          help={WORDS.users.roleHelp}
          value={role}
          options={ROLE_OPTIONS}
          onChange={(chosen) => setRole(chosen as Role)}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            {WORDS.app.cancel}
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {WORDS.users.create}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
