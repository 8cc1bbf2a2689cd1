/** API tokens for machines. */

import { call, type Output } from '../api.ts'
import { Badge, Empty } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { listPage } from '../components/list.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { ROLES, roleText } from '../labels.ts'
import { endOfDay } from '../time-zone.ts'
import { roleBody, roleFields } from './role-fields.ts'

const PLACE = '/tokens'

function Status({ revoked_at, expires_at }: Output<'listTokens'>[number]) {
  if (revoked_at !== null) return <Badge tone="bad">revoked</Badge>
  if (expires_at !== null && Date.parse(expires_at) < Date.now()) return <Badge>expired</Badge>
  return <Badge tone="good">active</Badge>
}

export const TokensPage = listPage('listTokens', {
  title: 'API tokens',
  about: 'For scripts and metrics: a token has the rights of its role, and never more than its maker.',
  rowKey: ({ id, revoked_at }) => `${id} ${revoked_at}`,
  columns: (reload) => [
    { head: 'Name', member: 'name', kind: 'wide', sorts: true },
    { head: 'Role', by: ({ role }) => ROLES[role], cell: roleText },
    { head: 'Status', cell: (token) => <Status {...token} /> },
    { head: 'Expires', member: 'expires_at', kind: 'time' },
    { head: 'Last used', member: 'last_used_at', kind: 'time' },
    {
      head: 'Actions',
      cell: ({ id, name, revoked_at }) =>
        revoked_at === null && (
          <Action
            needs="revokeToken"
            kind="small"
            action="Revoke"
            of={name}
            danger
            consequence="Scripts that use it are refused from now on. It cannot be undone."
            onConfirm={() => call('revokeToken', { params: { token_id: id } })}
            done="The token is revoked."
            onDone={reload}
          />
        ),
    },
  ],
  actions: (reload) => <CreateToken onMade={reload} />,
  empty: (reload) => (
    <Empty title="No API tokens">
      <CreateToken onMade={reload} />
    </Empty>
  ),
  above: () => <OnceShown place={PLACE}>{() => <p>Send it as Authorization: Bearer …</p>}</OnceShown>,
})

const CreateToken = ({ onMade }: { onMade: () => void }) => (
  <Action
    needs="createToken"
    kind="primary"
    action="Create a token"
    fields={{
      name: { label: 'Name', required: true },
      ...roleFields('auditor'),
      expires_at: {
        label: 'Expires',
        help: 'At the end of that day. Empty: it does not expire, or 90 days after your last sign-in by your provider.',
        type: 'date',
      },
    }}
    onConfirm={({ name, expires_at, ...role }) => {
      const expiry = expires_at && { expires_at: endOfDay(expires_at) }
      return call('createToken', { body: { name, ...roleBody(role), ...expiry } })
    }}
    onDone={({ id, name, token }) => {
      keepSecret({ id, place: PLACE, title: `The token ${name}`, secrets: [['Token', token]] })
      onMade()
    }}
  />
)
