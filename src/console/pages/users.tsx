/** Administrators and auditors. */

import { useState } from 'preact/hooks'
import { call, can, type Output, useList } from '../api.ts'
import { Allowed, Badge, fieldError, Problem, Time } from '../components/basics.tsx'
import { Confirm, Dialog } from '../components/dialog.tsx'
import { SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { ShownOnce } from '../components/shown-once.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import type { PageProps } from '../router.ts'
import { type Role, useSession } from '../session.ts'
import { WORDS } from '../words.ts'

type User = Output<'listUsers'>[number]
type WithPassword = Output<'createUser'>

export const ROLE_OPTIONS = (['auditor', 'admin'] as const).map((role) => [role, WORDS.session.roles[role]] as const)

export function UsersPage({ entry }: PageProps) {
  const list = useList('listUsers', {}, entry)
  const [isOpen, setOpen] = useState(false)
  const [made, setMade] = useState<WithPassword>()
  const [doomed, setDoomed] = useState<User>()
  const { user: me } = useSession()
  const update = async (user: User, body: { enabled?: boolean; role?: Role }) => {
    await call('updateUser', { params: { user_id: user.id }, body }).catch((cause: Error) => tell(cause.message, 'bad'))
    list.reload()
  }
  return (
    <Page
      title={WORDS.pages.users}
      actions={
        <Allowed to="createUser">
          <button type="button" class="primary" onClick={() => setOpen(true)}>
            {WORDS.users.create}
          </button>
        </Allowed>
      }
    >
      <List
        caption={WORDS.pages.users}
        list={list}
        rowKey={({ id, updated_at }) => `${id} ${updated_at}`}
        columns={columnsOf({ me: me?.id, update, remove: setDoomed })}
      />
      {isOpen && (
        <CreateDialog
          onClose={() => setOpen(false)}
          onMade={(user) => {
            setOpen(false)
            setMade(user)
            list.reload()
          }}
        />
      )}
      {made && (
        <ShownOnce
          title={WORDS.users.made(made.username)}
          secrets={[[WORDS.session.password, made.password]]}
          onClose={() => setMade(undefined)}
        />
      )}
      {doomed && (
        <Confirm
          title={WORDS.users.deleteOf(doomed.username)}
          consequence={<p>{WORDS.users.deleteConsequence}</p>}
          action={WORDS.common.delete}
          danger
          typed={doomed.username}
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await call('deleteUser', { params: { user_id: doomed.id } })
            list.reload()
          }}
        />
      )}
    </Page>
  )
}

interface UserChanges {
  me: string | undefined
  update: (user: User, body: { enabled?: boolean; role?: Role }) => Promise<void>
  remove: (user: User) => void
}

/** Nobody changes or deletes the own user. */
function columnsOf({ me, update, remove }: UserChanges): Column<User>[] {
  const isOther = ({ id }: User) => id !== me
  return [
    { head: WORDS.users.username, cell: ({ username }) => username },
    { head: WORDS.users.email, kind: 'wide', cell: ({ email }) => email },
    {
      head: WORDS.users.role,
      cell: (user) =>
        can('updateUser') && isOther(user) ? (
          <select
            aria-label={WORDS.users.roleOf(user.username)}
            onChange={(event) => update(user, { role: event.currentTarget.value as Role })}
          >
            {ROLE_OPTIONS.map(([role, text]) => (
              <option key={role} value={role} selected={role === user.role}>
                {text}
              </option>
            ))}
          </select>
        ) : (
          WORDS.session.roles[user.role]
        ),
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
        can('updateUser') &&
        isOther(user) && (
          <div class="actions left">
            <button
              type="button"
              class="small"
              aria-label={(user.enabled ? WORDS.users.disableOf : WORDS.users.enableOf)(user.username)}
              onClick={() => update(user, { enabled: !user.enabled })}
            >
              {user.enabled ? WORDS.users.disable : WORDS.users.enable}
            </button>
            <button
              type="button"
              class="small"
              aria-label={WORDS.users.deleteOf(user.username)}
              onClick={() => remove(user)}
            >
              {WORDS.common.delete}
            </button>
          </div>
        ),
    },
  ]
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
          {...{ label: WORDS.users.username, value: username, onChange: setUsername, required: true }}
          error={fieldError(error, 'username')}
        />
        <TextField
          {...{ label: WORDS.users.email, type: 'email', value: email, onChange: setEmail, required: true }}
          error={fieldError(error, 'email')}
        />
        <SelectField
          {...{ label: WORDS.users.role, help: WORDS.users.roleHelp, value: role, options: ROLE_OPTIONS }}
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
