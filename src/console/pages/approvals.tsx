/** Acts that wait for another person: the list, and one request with its decision. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { Button, Empty, Facts, LongText, Time } from '../components/basics.tsx'
import { type Column, drawnBy, factsOf } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { WorkButton } from '../components/form.tsx'
import { listPage } from '../components/list.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { Section } from '../components/page.tsx'
import { TableSection } from '../components/table.tsx'
import { go, href, type PageProps } from '../router.ts'
import { currentSession, useSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'

type Approval = Output<'getApproval'>

const STATUS: Column<Pick<Approval, 'status'>> = {
  head: 'Status',
  member: 'status',
  tones: { waiting: 'warn', approved: 'good', rejected: 'bad', withdrawn: 'plain', expired: 'plain' },
}

const FILTER = [
  {
    name: 'waiting',
    label: 'Status',
    options: [
      ['true', 'Waiting'],
      ['false', 'Decided or expired'],
    ],
  },
] as const

export const ApprovalsPage = listPage('listApprovals', {
  title: 'Approvals',
  filters: FILTER,
  columns: [
    { head: 'Asked', member: 'created_at', kind: 'time' },
    {
      head: 'By',
      by: ({ maker }) => maker,
      cell: ({ maker, maker_id }) => (maker_id === currentSession().user?.id ? `${maker} (you)` : maker),
    },
    { head: 'What', member: 'summary', kind: 'word', to: ({ id }) => href(`/approvals/${id}`) },
    { head: 'Reason', member: 'reason', kind: 'wide' },
    STATUS,
    { head: 'Decided by', member: 'decided_by' },
  ],
  empty: (
    <Empty title="No requests for approval">
      <p>A request appears here when somebody asks for an act that another person must approve.</p>
    </Empty>
  ),
})

const FACTS: readonly Column<Approval>[] = [
  { head: 'Asked by', member: 'maker' },
  { head: 'Asked', member: 'created_at', kind: 'time' },
  { head: 'Reason', member: 'reason' },
  { head: 'Expires', cell: ({ status, expires_at }) => status === 'waiting' && <Time at={expires_at} /> },
  { head: 'Decided by', member: 'decided_by' },
  { head: 'Decided', cell: ({ decided_at }) => decided_at !== null && <Time at={decided_at} /> },
  { head: 'Reason of the decision', member: 'decision_reason' },
]

export function ApprovalPage({ params }: PageProps) {
  const loaded = useApi('getApproval', { params: { approval_id: params['approval'] ?? '' } })
  return (
    <LoadedPage title="Approval" loaded={loaded}>
      {(one) => (
        <>
          <p>
            <strong>{one.summary}</strong> {drawnBy(STATUS, one)}
          </p>
          <Facts rows={factsOf(one, FACTS)} />
          <Changes facts={one.facts} />
          {one.act === 'bulk_revocation' && one.status === 'approved' && (
            <p>
              <a href={href('/bulk-revocations')}>How far it is: bulk revocations, the newest first</a>
            </p>
          )}
          <Request id={one.id} />
          <Decision one={one} reload={loaded.reload} />
        </>
      )}
    </LoadedPage>
  )
}

const Changes = ({ facts }: Pick<Approval, 'facts'>) =>
  facts.length === 0 ? null : (
    <TableSection
      caption="What would change"
      rows={facts}
      rowKey={({ name }) => name}
      columns={[
        { head: 'Member', member: 'name' },
        { head: 'Before', member: 'before', kind: 'word' },
        { head: 'After', member: 'after', kind: 'word' },
      ]}
    />
  )

/** The facts are cut; the request has each serial number and each member. */
function Request({ id }: { id: string }) {
  const [text, setText] = useState<string>()
  const show = async () =>
    setText(JSON.stringify(await call('getApprovalRequest', { params: { approval_id: id } }), null, 2))
  return (
    <Section title="The request">
      {text === undefined ? (
        <WorkButton kind="small" text="Show all of it" work={show} />
      ) : (
        <>
          <Button
            kind="small"
            text="Save as a file"
            onClick={() => saveFile(`request-${id}.json`, 'application/json', text)}
          />
          <LongText>{text}</LongText>
        </>
      )}
    </Section>
  )
}

function Decision({ one, reload }: { one: Approval; reload: () => void }) {
  const { user } = useSession()
  const place = `/approvals/${one.id}`
  const params = { approval_id: one.id }
  const isOwn = one.maker_id === user?.id
  const isWaiting = one.status === 'waiting'
  return (
    <div class="actions left">
      {isWaiting && !isOwn && (
        <>
          <Action
            needs="approve"
            kind="primary"
            action="Approve"
            typed={one.most === null ? undefined : String(one.most)}
            consequence={`${one.summary}: it is done at once, in the name of ${one.maker}. The audit log names both of you.`}
            onConfirm={async () => {
              const { password_second_half: half } = await call('approve', { params })
              if (half !== null) keepSecret({ id: one.id, place, title: one.summary, secrets: [[SECOND_HALF, half]] })
            }}
            done="Approved, and done."
            onDone={reload}
          />
          <Action
            needs="reject"
            action="Reject"
            danger
            consequence={`Nothing is done. ${one.maker} can ask again.`}
            fields={{ reason: { label: 'Reason', required: true } }}
            onConfirm={(body) => call('reject', { params, body })}
            onDone={reload}
          />
        </>
      )}
      {isWaiting && isOwn && (
        <Action
          needs="withdraw"
          action="Withdraw"
          consequence="Nobody can approve it any more. You can ask again."
          onConfirm={() => call('withdraw', { params })}
          onDone={reload}
        />
      )}
      {isOwn && one.has_result && can('collectApproved') && (
        <Action
          kind="primary"
          action="Show the secret"
          consequence="It is shown once: have a place for it ready."
          onConfirm={() => call('collectApproved', { params })}
          onDone={({ reply }) => {
            const { id, kid, hmac_key } = Object(reply) as Readonly<Record<string, unknown>>
            if (typeof hmac_key === 'string') {
              const sheet = `/onboarding/${id}`
              keepSecret({
                id: String(id),
                place: sheet,
                title: `The key of ${kid}`,
                secrets: [['HMAC key', hmac_key]],
              })
              return go(sheet)
            }
            keepSecret({ id: one.id, place, title: one.summary, secrets: secretsOf(reply) })
            reload()
          }}
        />
      )}
      <OnceShown place={place} />
    </div>
  )
}

const SECOND_HALF = 'Second half of the password'
const SECRETS = {
  username: 'Username',
  password_first_half: 'First half of the password',
  kid: 'Key id',
  hmac_key: 'HMAC key',
}

function secretsOf(reply: unknown): (readonly [string, string])[] {
  const members = Object(reply) as Readonly<Record<string, unknown>>
  return Object.entries(SECRETS).flatMap(([name, label]) =>
    typeof members[name] === 'string' ? [[label, members[name]] as const] : [],
  )
}
