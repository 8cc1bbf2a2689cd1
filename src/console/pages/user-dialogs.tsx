/** What is done to one user, asked for in a dialog: a new password, the end of a lock, deletion. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { fieldError, Problem } from '../components/basics.tsx'
import { Confirm, Dialog } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { tell } from '../components/toast.tsx'
import { WORDS } from '../words.ts'

export type User = Output<'listUsers'>[number]
export type WithPassword = Output<'createUser'>
export type UserDeed = 'reset' | 'unlock' | 'delete' | 'role' | 'access'

export const otherRole = (role: User['role']) => (role === 'admin' ? 'auditor' : 'admin')

interface UserDialogProps {
  user: User
  deed: UserDeed
  onClose: () => void
  onChanged: () => void
  onPassword: (user: WithPassword) => void
}

const words = WORDS.users

function RoleDialog({
  user: { id, username, role },
  onClose,
  onChanged,
}: Omit<UserDialogProps, 'deed' | 'onPassword'>) {
  const other = otherRole(role)
  return (
    <Confirm
      title={words.roleOf(username, other)}
      consequence={<p>{words.roleConsequence[other]}</p>}
      action={words.roles[other]}
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
      title={enabled ? words.disableOf(username) : words.enableOf(username)}
      consequence={<p>{enabled ? words.disableConsequence : words.enableConsequence}</p>}
      action={enabled ? words.disable : words.enable}
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
        title={words.resetOf(user.username)}
        consequence={<p>{words.resetConsequence}</p>}
        action={words.reset}
        danger
        onClose={onClose}
        onConfirm={async () => onPassword(await call('resetPassword', { params }))}
      />
    )
  if (deed === 'unlock')
    return (
      <Confirm
        title={words.unlockOf(user.username)}
        consequence={<p>{words.unlockConsequence}</p>}
        action={words.unlock}
        onClose={onClose}
        onConfirm={async () => {
          const { unlocked } = await call('unlockUser', { params })
          tell((unlocked ? words.unlocked : words.notLocked)(user.username))
        }}
      />
    )
  return (
    <Confirm
      title={words.deleteOf(user.username)}
      consequence={<p>{words.deleteConsequence}</p>}
      action={WORDS.common.delete}
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
    tell((unlocked ? words.unlocked : words.notLocked)(address.trim()))
    onClose()
  })
  return (
    <Dialog title={words.unlockAddress} onClose={onClose}>
      <form onSubmit={submit}>
        <div class="consequence">
          <p>{words.unlockAddressConsequence}</p>
        </div>
        <TextField
          label={words.address}
          help={words.addressHelp}
          value={address}
          onChange={setAddress}
          required
          error={fieldError(error, 'address')}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            {WORDS.app.cancel}
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {words.unlock}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
