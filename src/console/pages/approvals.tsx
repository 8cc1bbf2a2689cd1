/** Acts that wait for another person: the list, and one request with its decision. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { Badge, Empty, Facts, LongText, Problem, Ready, Time, type Tone } from '../components/basics.tsx'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField, useForm, useSubmit } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { keepSecret, OnceShown } from '../components/once-shown.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { TableSection, timeColumn } from '../components/table.tsx'
import { go, href, type PageProps } from '../router.ts'
import { useSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'

type Approval = Output<'getApproval'>

const TONES: Readonly<Record<Approval['status'], Tone>> = {
  waiting: 'warn',
  approved: 'good',
  rejected: 'bad',
  withdrawn: 'plain',
  expired: 'plain',
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

const Status = ({ status }: Pick<Approval, 'status'>) => <Badge tone={TONES[status]}>{status}</Badge>

export function ApprovalsPage({ query, entry }: PageProps) {
  const { waiting } = query
  const list = useList('listApprovals', { query: waiting === undefined ? {} : { waiting } }, entry)
  const { user } = useSession()
  return (
    <ListPage
      title="Approvals"
      query={query}
      filters={FILTER}
      list={list}
      empty={
        <Empty title="No requests for approval">
          <p>A request appears here when somebody asks for an act that another person must approve.</p>
        </Empty>
      }
      columns={[
        timeColumn('Asked', 'created_at'),
        {
          head: 'By',
          by: ({ maker }) => maker,
          cell: ({ maker, maker_id }) => (maker_id === user?.id ? `${maker} (you)` : maker),
        },
        { head: 'What', kind: 'word', cell: ({ id, summary }) => <a href={href(`/approvals/${id}`)}>{summary}</a> },
        { head: 'Reason', kind: 'wide', cell: ({ reason }) => reason },
        { head: 'Status', cell: (one) => <Status {...one} /> },
        { head: 'Decided by', cell: ({ decided_by }) => decided_by },
      ]}
    />
  )
}

export function ApprovalPage({ params }: PageProps) {
  const id = { approval_id: params['approval'] ?? '' }
  const loaded = useApi('getApproval', { params: id })
  return (
    <Page title="Approval">
      <Ready loaded={loaded}>
        {(one) => (
          <>
            <p>
              <strong>{one.summary}</strong> <Status {...one} />
            </p>
            <Facts
              rows={[
                ['Asked by', one.maker],
                ['Asked', <Time key="asked" at={one.created_at} />],
                ['Reason', one.reason],
                one.status === 'waiting' && ['Expires', <Time key="expires" at={one.expires_at} />],
                ['Decided by', one.decided_by],
                one.decided_at !== null && ['Decided', <Time key="decided" at={one.decided_at} />],
                ['Reason of the decision', one.decision_reason],
              ]}
            />
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
      </Ready>
    </Page>
  )
}

const Changes = ({ facts }: Pick<Approval, 'facts'>) =>
  facts.length === 0 ? null : (
    <TableSection
      caption="What would change"
      rows={facts}
      rowKey={({ name }) => name}
      columns={[
        { head: 'Member', cell: ({ name }) => name },
        { head: 'Before', kind: 'word', cell: ({ before }) => before },
        { head: 'After', kind: 'word', cell: ({ after }) => after },
      ]}
    />
  )

/** Facts are cut; this has each serial number and each member. */
function Request({ id }: { id: string }) {
  const [text, setText] = useState<string>()
  const { submit, error, isBusy } = useSubmit(async () =>
    setText(JSON.stringify(await call('getApprovalRequest', { params: { approval_id: id } }), null, 2)),
  )
  return (
    <Section title="The request">
      {text === undefined ? (
        <button type="button" class="small" disabled={isBusy} onClick={submit}>
          Show all of it
        </button>
      ) : (
        <>
          <button type="button" class="small" onClick={() => saveFile(`request-${id}.json`, 'application/json', text)}>
            Save as a file
          </button>
          <LongText>{text}</LongText>
        </>
      )}
      <Problem error={error} />
    </Section>
  )
}

function Decision({ one, reload }: { one: Approval; reload: () => void }) {
  const { user } = useSession()
  const { values, field, reset } = useForm({ reason: '' })
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
            {...(one.most !== null && { typed: String(one.most) })}
            consequence={
              <p>
                {one.summary}: it is done at once, in the name of {one.maker}. The audit log names both of you.
              </p>
            }
            onConfirm={async () => {
              const { password_second_half: half } = await call('approve', { params })
              if (half !== null) keepSecret({ id: one.id, place, title: one.summary, secrets: [[SECOND_HALF, half]] })
              tell('Approved, and done.')
              reload()
            }}
          />
          <Action
            needs="reject"
            action="Reject"
            danger
            consequence={<p>Nothing is done. {one.maker} can ask again.</p>}
            onOpen={reset}
            onConfirm={() => call('reject', { params, body: values }).then(reload)}
          >
            {(error) => <TextField label="Reason" required {...field('reason', error)} />}
          </Action>
        </>
      )}
      {isWaiting && isOwn && (
        <Action
          needs="withdraw"
          action="Withdraw"
          consequence={<p>Nobody can approve it any more. You can ask again.</p>}
          onConfirm={() => call('withdraw', { params }).then(reload)}
        />
      )}
      {isOwn && one.has_result && can('collectApproved') && (
        <Action
          kind="primary"
          action="Show the secret"
          consequence={<p>It is shown once: have a place for it ready.</p>}
          onConfirm={async () => {
            const { reply } = await call('collectApproved', { params })
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
