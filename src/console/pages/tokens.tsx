/** API tokens for machines. */

import { useState } from 'preact/hooks'
import { call, can, type Output, useList } from '../api.ts'
import { Allowed, Badge, Empty, fieldError, Problem, Time } from '../components/basics.tsx'
import { Confirm, Dialog } from '../components/dialog.tsx'
import { DayField, SelectField, TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { ShownOnce } from '../components/shown-once.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { endOfDay } from '../days.ts'
import type { PageProps } from '../router.ts'
import type { Role } from '../session.ts'
import { WORDS } from '../words.ts'
import { ROLE_OPTIONS } from './users.tsx'

type Token = Output<'listTokens'>[number]
type WithSecret = Output<'createToken'>

const isOver = ({ expires_at }: Token) => expires_at !== null && Date.parse(expires_at) < Date.now()

const columnsOf = (revoke: (token: Token) => void): Column<Token>[] => [
  { head: WORDS.tokens.name, kind: 'wide', cell: ({ name }) => name },
  { head: WORDS.users.role, cell: ({ role }) => WORDS.session.roles[role] },
  {
    head: WORDS.common.status,
    cell: (token) =>
      token.revoked_at !== null ? (
        <Badge tone="bad">{WORDS.tokens.revoked}</Badge>
      ) : isOver(token) ? (
        <Badge>{WORDS.eab.expired}</Badge>
      ) : (
        <Badge tone="good">{WORDS.tokens.good}</Badge>
      ),
  },
  { head: WORDS.common.expires, kind: 'fixed', cell: ({ expires_at }) => <Time at={expires_at} /> },
  { head: WORDS.tokens.lastUsed, kind: 'fixed', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
  {
    head: WORDS.common.actions,
    cell: (token) =>
      can('revokeToken') &&
      token.revoked_at === null && (
        <button
          type="button"
          class="small"
          aria-label={WORDS.tokens.revokeOf(token.name)}
          onClick={() => revoke(token)}
        >
          {WORDS.tokens.revoke}
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
        {WORDS.tokens.create}
      </button>
    </Allowed>
  )
  return (
    <Page title={WORDS.pages.tokens} actions={create}>
      <p class="quiet">{WORDS.tokens.about}</p>
      <List
        caption={WORDS.pages.tokens}
        list={list}
        columns={columnsOf(setDoomed)}
        rowKey={({ id, revoked_at }) => `${id} ${revoked_at}`}
        empty={<Empty title={WORDS.tokens.empty}>{create}</Empty>}
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
          title={WORDS.tokens.made(made.name)}
          secrets={[[WORDS.tokens.token, made.token]]}
          onClose={() => setMade(undefined)}
        >
          <p>{WORDS.tokens.use}</p>
        </ShownOnce>
      )}
      {doomed && (
        <Confirm
          title={WORDS.tokens.revokeOf(doomed.name)}
          consequence={<p>{WORDS.tokens.revokeConsequence}</p>}
          action={WORDS.tokens.revoke}
          danger
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await call('revokeToken', { params: { token_id: doomed.id } })
            tell(WORDS.tokens.revoked)
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
    <Dialog title={WORDS.tokens.create} onClose={onClose}>
      <form onSubmit={submit}>
        <TextField
          label={WORDS.tokens.name}
          value={name}
          onChange={setName}
          required
          error={fieldError(error, 'name')}
        />
        <SelectField
          label={WORDS.users.role}
          help={WORDS.users.roleHelp}
          value={role}
          options={ROLE_OPTIONS}
          onChange={(chosen) => setRole(chosen as Role)}
        />
        <DayField
          label={WORDS.common.expires}
          help={WORDS.tokens.expiresHelp}
          value={expires}
          onChange={setExpires}
          error={fieldError(error, 'expires_at')}
        />
        <Problem error={error} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            {WORDS.app.cancel}
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {WORDS.tokens.create}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
