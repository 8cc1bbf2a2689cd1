/** What is done to one user, asked for in a dialog: a new password, the end of a lock, deletion. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { fieldError, Problem } from '../components/basics.tsx'
import { Confirm, Dialog } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { tell } from '../components/page.tsx'

export type User = Output<'listUsers'>[number]
export type WithPassword = Output<'createUser'>
export type UserDeed = 'reset' | 'unlock' | 'delete' | 'role' | 'access'

export const ROLE_ACTIONS = { admin: 'Make administrator', auditor: 'Make auditor' }
const ROLE_CONSEQUENCES = {
  admin: 'May then change everything: revoke certificates, stop signing, make and delete users.',
  auditor: 'May then read only. Operations that the user has started continue.',
}
const unlockedText = (subject: string, wasLocked: boolean) =>
  wasLocked ? `${subject} is unlocked.` : `${subject} was not locked: no failed login is counted.`

export const otherRole = (role: User['role']) => (role === 'admin' ? 'auditor' : 'admin')

interface UserDialogProps {
  user: User
  deed: UserDeed
  onClose: () => void
  onChanged: () => void
  onPassword: (user: WithPassword) => void
}

function RoleDialog({
  user: { id, username, role },
  onClose,
  onChanged,
}: Omit<UserDialogProps, 'deed' | 'onPassword'>) {
  const other = otherRole(role)
  return (
    <Confirm
      title={`${ROLE_ACTIONS[other]}: ${username}`}
      consequence={<p>{ROLE_CONSEQUENCES[other]}</p>}
      action={ROLE_ACTIONS[other]}
      danger={other === 'admin'}
      onClose={onClose}
      onConfirm={async () => {
        await call('updateUser', { params: { user_id: id }, body: { role: other } })
        onChanged()
      }}
    />
  )
}

function AccessDialog({ user, onClose, onChanged }: Omit<UserDialogProps, 'deed' | 'onPassword'>) {
  const { id, username, enabled } = user
  return (
    <Confirm
      title={enabled ? `Disable ${username}` : `Enable ${username}`}
      consequence={
        <p>
          {enabled
            ? 'The user can no longer sign in; sessions and API tokens are refused at once.'
            : 'The user may sign in again, with the rights of the role.'}
        </p>
      }
      action={enabled ? 'Disable' : 'Enable'}
      danger={enabled}
      onClose={onClose}
      onConfirm={async () => {
        await call('updateUser', { params: { user_id: id }, body: { enabled: !enabled } })
        onChanged()
      }}
    />
  )
}

export function UserDialog({ user, deed, onClose, onChanged, onPassword }: UserDialogProps) {
  if (deed === 'role') return <RoleDialog user={user} onClose={onClose} onChanged={onChanged} />
  if (deed === 'access') return <AccessDialog user={user} onClose={onClose} onChanged={onChanged} />
  const params = { user_id: user.id }
  if (deed === 'reset')
    return (
      <Confirm
        title={`New password for ${user.username}`}
        consequence={<p>The old password, all sessions and all API tokens of the user end at once.</p>}
        action="New password"
        danger
        onClose={onClose}
        onConfirm={async () => onPassword(await call('resetPassword', { params }))}
      />
    )
  if (deed === 'unlock')
    return (
      <Confirm
        title={`Unlock ${user.username}`}
        consequence={<p>Forgets the failed logins under this name, so that the user may sign in again at once.</p>}
        action="Unlock"
        onClose={onClose}
        onConfirm={async () => {
          const { unlocked } = await call('unlockUser', { params })
          tell(unlockedText(user.username, unlocked))
        }}
      />
    )
  return (
    <Confirm
      title={`Delete ${user.username}`}
      consequence={<p>All sessions and API tokens of the user end. It cannot be undone; the audit log stays.</p>}
      action="Delete"
      danger
      typed={user.username}
      onClose={onClose}
      onConfirm={async () => {
        await call('deleteUser', { params })
        onChanged()
      }}
    />
  )
}

/** Failed logins lock their address, too, for every user behind it. */
export function UnlockAddressDialog({ onClose }: { onClose: () => void }) {
  const [address, setAddress] = useState('')
  const { submit, error, isBusy } = useSubmit(async () => {
    const { unlocked } = await call('unlockAddress', { body: { address: address.trim() } })
    tell(unlockedText(address.trim(), unlocked))
    onClose()
  })
  return (
    <Dialog title="Unlock an address" onClose={onClose}>
      <form onSubmit={submit}>
        <div class="consequence">
          <p>Forgets the failed logins from an address, so that users behind it may sign in again.</p>
        </div>
        <TextField
          label="IP address"
          help="An IPv6 address counts as its /64 network."
          value={address}
          onChange={setAddress}
          required
          error={fieldError(error, 'address')}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Unlock
          </button>
        </div>
      </form>
    </Dialog>
  )
}
