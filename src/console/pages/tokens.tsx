/** API tokens for machines. */

import { useState } from 'preact/hooks'
import { call, can, type Output, useList } from '../api.ts'
import { Allowed, Badge, Empty, fieldError, Problem, Time } from '../components/basics.tsx'
import { Confirm, Dialog, ShownOnce } from '../components/dialog.tsx'
import { DayField, SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page, tell } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { endOfDay } from '../format.ts'
import { ROLE_OPTIONS, ROLES } from '../labels.ts'
import type { PageProps } from '../router.ts'
import type { Role } from '../session.ts'

type Token = Output<'listTokens'>[number]
type WithSecret = Output<'createToken'>

const isOver = ({ expires_at }: Token) => expires_at !== null && Date.parse(expires_at) < Date.now()

const columnsOf = (revoke: (token: Token) => void): Column<Token>[] => [
  { head: 'Name', kind: 'wide', cell: ({ name }) => name },
  { head: 'Role', cell: ({ role }) => ROLES[role] },
  {
    head: 'Status',
    cell: (token) =>
      token.revoked_at !== null ? (
        <Badge tone="bad">revoked</Badge>
      ) : isOver(token) ? (
        <Badge>expired</Badge>
      ) : (
        <Badge tone="good">active</Badge>
      ),
  },
  { head: 'Expires', kind: 'fixed', cell: ({ expires_at }) => <Time at={expires_at} /> },
  { head: 'Last used', kind: 'fixed', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
  {
    head: 'Actions',
    cell: (token) =>
      can('revokeToken') &&
      token.revoked_at === null && (
        <button type="button" class="small" aria-label={`Revoke ${token.name}`} onClick={() => revoke(token)}>
          Revoke
        </button>
      ),
  },
]

export function TokensPage({ entry }: PageProps) {
  const list = useList('listTokens', {}, entry)
  const [isOpen, setOpen] = useState(false)
  const [made, setMade] = useState<WithSecret>()
  const [doomed, setDoomed] = useState<Token>()
  const create = (
    <Allowed to="createToken">
      <button type="button" class="primary" onClick={() => setOpen(true)}>
        Create a token
      </button>
    </Allowed>
  )
  return (
    <Page title="API tokens" actions={create}>
      <p class="quiet">For scripts and metrics: a token has the rights of its role, and never more than its maker.</p>
      <List
        caption="API tokens"
        list={list}
        columns={columnsOf(setDoomed)}
        rowKey={({ id, revoked_at }) => `${id} ${revoked_at}`}
        empty={<Empty title="No API tokens">{create}</Empty>}
      />
      {isOpen && (
        <CreateDialog
          onClose={() => setOpen(false)}
          onMade={(token) => {
            setOpen(false)
            setMade(token)
            list.reload()
          }}
        />
      )}
      {made && (
        <ShownOnce
          title={`The token ${made.name}`}
          secrets={[['Token', made.token]]}
          onClose={() => setMade(undefined)}
        >
          <p>Send it as Authorization: Bearer …</p>
        </ShownOnce>
      )}
      {doomed && (
        <Confirm
          title={`Revoke ${doomed.name}`}
          consequence={<p>Scripts that use it are refused from now on. It cannot be undone.</p>}
          action="Revoke"
          danger
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await call('revokeToken', { params: { token_id: doomed.id } })
            tell('revoked')
            list.reload()
          }}
        />
      )}
    </Page>
  )
}

function CreateDialog({ onClose, onMade }: { onClose: () => void; onMade: (made: WithSecret) => void }) {
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('auditor')
  const [expires, setExpires] = useState('')
  const { submit, error, isBusy } = useSubmit(async () =>
    onMade(await call('createToken', { body: { name, role, ...(expires && { expires_at: endOfDay(expires) }) } })),
  )
  return (
    <Dialog title="Create a token" onClose={onClose}>
      <form onSubmit={submit}>
        <TextField label="Name" value={name} onChange={setName} required error={fieldError(error, 'name')} />
        <SelectField
          label="Role"
          help="Auditors can read; administrators can also change."
          value={role}
          options={ROLE_OPTIONS}
          onChange={(chosen) => setRole(chosen as Role)}
        />
        <DayField
          label="Expires"
          help="At the end of that day. Empty: it does not expire."
          value={expires}
          onChange={setExpires}
          error={fieldError(error, 'expires_at')}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Create a token
          </button>
        </div>
      </form>
    </Dialog>
  )
}
