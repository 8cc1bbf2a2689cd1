/** API tokens for machines. */

import { call, type Output } from '../api.ts'
import { Badge, Empty } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { DayField, TextField, useForm } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { tell } from '../components/page.tsx'
import { RoleFields, roleBody } from '../components/role-fields.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { ROLES, roleText } from '../labels.ts'
import type { PageProps } from '../router.ts'
import { endOfDay } from '../time-zone.ts'
import { useList } from '../use-list.ts'

type Token = Output<'listTokens'>[number]
type WithSecret = Output<'createToken'>
const PLACE = '/tokens'

function Status({ revoked_at, expires_at }: Token) {
  if (revoked_at !== null) return <Badge tone="bad">revoked</Badge>
  if (expires_at !== null && Date.parse(expires_at) < Date.now()) return <Badge>expired</Badge>
  return <Badge tone="good">active</Badge>
}

const columnsOf = (reload: () => void): Column<Token>[] => [
  { head: 'Name', kind: 'wide', by: ({ name }) => name, cell: ({ name }) => name },
  { head: 'Role', by: ({ role }) => ROLES[role], cell: roleText },
  { head: 'Status', cell: (token) => <Status {...token} /> },
  timeColumn('Expires', 'expires_at'),
  timeColumn('Last used', 'last_used_at'),
  {
    head: 'Actions',
    cell: ({ id, name, revoked_at }) =>
      revoked_at === null && (
        <Action
          needs="revokeToken"
          kind="small"
          label={`Revoke ${name}`}
          title={`Revoke ${name}`}
          action="Revoke"
          danger
          consequence={<p>Scripts that use it are refused from now on. It cannot be undone.</p>}
          onConfirm={async () => {
            await call('revokeToken', { params: { token_id: id } })
            tell('The token is revoked.')
            reload()
          }}
        />
      ),
  },
]

export function TokensPage({ entry }: PageProps) {
  const list = useList('listTokens', {}, entry)
  const create = (
    <CreateToken
      onMade={(token) => {
        keepSecret({
          id: token.id,
          place: PLACE,
          title: `The token ${token.name}`,
          secrets: [['Token', token.token]],
        })
        list.reload()
      }}
    />
  )
  return (
    <ListPage
      title="API tokens"
      actions={create}
      about="For scripts and metrics: a token has the rights of its role, and never more than its maker."
      list={list}
      columns={columnsOf(list.reload)}
      rowKey={({ id, revoked_at }) => `${id} ${revoked_at}`}
      empty={<Empty title="No API tokens">{create}</Empty>}
    >
      <OnceShown place={PLACE}>{() => <p>Send it as Authorization: Bearer …</p>}</OnceShown>
    </ListPage>
  )
}

function CreateToken({ onMade }: { onMade: (made: WithSecret) => void }) {
  const { values, field, reset } = useForm({ name: '', role: 'auditor', scope: '', expires: '' })
  const { name, expires } = values
  return (
    <Action
      needs="createToken"
      kind="primary"
      action="Create a token"
      onOpen={reset}
      onConfirm={async () => {
        const expiry = expires && { expires_at: endOfDay(expires) }
        onMade(await call('createToken', { body: { name, ...roleBody(values), ...expiry } }))
      }}
    >
      {(error) => (
        <>
          <TextField label="Name" required {...field('name', error)} />
          <RoleFields values={values} field={field} error={error} />
          <DayField
            label="Expires"
            help="At the end of that day. Empty: it does not expire, or 90 days after your last sign-in by your provider."
            {...field('expires', error, 'expires_at')}
          />
        </>
      )}
    </Action>
  )
}
