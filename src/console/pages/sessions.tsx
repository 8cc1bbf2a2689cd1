/** Sessions of a user, with their end. */

import type { OperationId, Output } from '../api.ts'
import { Badge, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { Table } from '../components/table.tsx'
import type { Loaded } from '../use-api.ts'

type Session = Output<'listMySessions'>[number]

interface SessionTableProps {
  loaded: Loaded<readonly Session[]>
  /** The operation that ends one. */
  needs: OperationId
  end: (id: string) => Promise<unknown>
}

const METHODS = { password: 'password', passkey: 'passkey', oidc: 'OpenID Connect' }

const columnsOf = ({ loaded, needs, end }: SessionTableProps): readonly Column<Session>[] => [
  {
    head: 'Address',
    kind: 'fixed',
    cell: ({ ip_address, is_current }) => (
      <>
        {ip_address} {is_current && <Badge tone="good">this one</Badge>}
      </>
    ),
  },
  { head: 'Browser', kind: 'wide', cell: ({ user_agent }) => user_agent ?? 'not known' },
  { head: 'Signed in by', cell: ({ methods }) => methods.map((method) => METHODS[method]).join(', ') },
  { head: 'Began', member: 'created_at', kind: 'time' },
  {
    head: 'Last proof of identity',
    kind: 'fixed',
    cell: ({ authenticated_at }) => (authenticated_at === null ? 'not known' : <Time at={authenticated_at} />),
  },
  { head: 'Ends', member: 'expires_at', kind: 'time' },
  {
    head: 'Actions',
    cell: ({ id, is_current, ip_address }) =>
      !is_current && (
        <Action
          needs={needs}
          kind="small"
          action="End"
          label={`End the session from ${ip_address}`}
          title="End this session"
          consequence="Its browser has to sign in again at the next request."
          onConfirm={() => end(id)}
          done="The session has ended."
          onDone={loaded.reload}
        />
      ),
  },
]

export const SessionTable = (props: SessionTableProps) => (
  <Ready loaded={props.loaded}>
    {(sessions) => (
      <Table caption="Sessions" rows={sessions} columns={columnsOf(props)} empty={<p class="quiet">No sessions</p>} />
    )}
  </Ready>
)
