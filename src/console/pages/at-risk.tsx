/** Certificates whose renewal window is open and that nobody has renewed; rows are chosen, then advised or muted. */

import { useState } from 'preact/hooks'
import { AT_RISK_FILTERS } from '../../admin/resources/certificates.ts'
import { explainFailure } from '../../domain/failure-advice.ts'
import { call, can, type Input, type Output } from '../api.ts'
import { AccountLink, Empty, Time } from '../components/basics.tsx'
import { CLIENT, type Column, LAST_SEEN } from '../components/columns.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { barOf } from '../components/filter-field.tsx'
import { DayField, TextField } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { countText, plural } from '../format.ts'
import { RENEWAL_ADVICE } from '../labels.ts'
import { href, type PageProps } from '../router.ts'
import { withWholeDays } from '../time-zone.ts'
import { type Listed, useList } from '../use-list.ts'
import { CertificateStatus, Names } from './certificates.tsx'
import { TellOwners } from './tell-owners.tsx'

type AtRisk = Output<'listAtRisk'>[number]

const FILTERS = barOf(AT_RISK_FILTERS)

/** What is known of the client since the window opened. */
function Attempt({ row: { attempt, last_order, last_failure } }: { row: AtRisk }) {
  if (attempt === 'failed' && last_failure) {
    const { title, detail, orderId, authorizationId } = explainFailure(last_failure)
    const place = authorizationId ? `/authorizations/${authorizationId}` : orderId && `/orders/${orderId}`
    return (
      <>
        <div>
          {title} <Time at={last_failure.occurred_at} relative={false} />
        </div>
        {detail !== '' && <div class="quiet">{detail}</div>}
        {place && <a href={href(place)}>Evidence</a>}
      </>
    )
  }
  if (attempt === 'ordered' && last_order)
    return (
      <>
        <a href={href(`/orders/${last_order.id}`)}>Order without a certificate</a>{' '}
        <Time at={last_order.created_at} relative={false} />
      </>
    )
  return <>No order since the window opened</>
}

const Muted = ({ mute }: Pick<AtRisk, 'mute'>) =>
  mute && (
    <>
      <div>{mute.reason}</div>
      <div class="quiet">
        by {mute.muted_by}, <Time at={mute.muted_at} relative={false} />
        {mute.muted_until && (
          <>
            , until <Time at={mute.muted_until} relative={false} />
          </>
        )}
      </div>
    </>
  )

const COLUMNS: readonly Column<AtRisk>[] = [
  { head: 'Names', kind: 'wide', cell: (row) => <Names certificate={row} /> },
  { head: 'Status', kind: 'fixed', cell: (row) => <CertificateStatus certificate={row} /> },
  { head: 'Expires', kind: 'fixed', cell: ({ not_after }) => <Time at={not_after} /> },
  {
    head: 'Account',
    by: ({ account_name }) => account_name,
    cell: ({ account_id, account_name }) => account_id && <AccountLink id={account_id} name={account_name} />,
  },
  { head: 'Last attempt', kind: 'wide', cell: (row) => <Attempt row={row} /> },
  CLIENT,
  LAST_SEEN,
]
const MUTED_COLUMNS: readonly Column<AtRisk>[] = [
  ...COLUMNS,
  { head: 'Muted', kind: 'wide', cell: (row) => <Muted {...row} /> },
]

const CSV: CsvFile<AtRisk> = {
  name: 'at-risk.csv',
  members: [
    'serial_number',
    'san_values',
    'not_after',
    'account_id',
    'account_name',
    'client',
    'last_seen_at',
    'attempt',
    'last_failure',
    'mute',
  ],
}

export function AtRiskPage({ query, entry }: PageProps) {
  const list = useList('listAtRisk', { query: withWholeDays(query) } as Input<'listAtRisk'>, entry)
  const isMuted = query['muted'] === 'true'
  return (
    <ListPage
      title="At risk"
      about="Certificates whose renewal window is open, without a newer certificate for their names. The one that expires first is at the top."
      query={query}
      filters={FILTERS}
      list={list}
      columns={isMuted ? MUTED_COLUMNS : COLUMNS}
      csv={CSV}
      onChosen={
        can('adviseRenewal')
          ? (chosen, done) => <ChosenActions {...{ chosen, isMuted, done }} list={list} />
          : undefined
      }
      empty={
        <Empty title="Nothing is at risk">
          <p>Each certificate whose renewal window is open has a successor, or is muted.</p>
        </Empty>
      }
    />
  )
}

interface ChosenProps {
  chosen: readonly AtRisk[]
  isMuted: boolean
  list: Listed<AtRisk>
  /** Gives the selection up. */
  done: () => void
}

function ChosenActions({ chosen, isMuted, list, done: giveUp }: ChosenProps) {
  const done = () => {
    giveUp()
    list.reload()
  }
  const serial_numbers = chosen.map(({ serial_number }) => serial_number)
  const accounts = new Set(chosen.map(({ account_id }) => account_id)).size
  const count = plural(countText(chosen.length), 'certificate')
  return (
    <>
      <Action
        needs="adviseRenewal"
        kind="small"
        text="Ask to renew …"
        action="Ask to renew now"
        title={`Ask to renew ${count} of ${plural(countText(accounts), 'account')}`}
        consequence={<p>{RENEWAL_ADVICE}</p>}
        onConfirm={async () => {
          const { certificates } = await call('adviseRenewal', { body: { filter: { serial_numbers } } })
          tell(`Renewal information asks to renew ${plural(countText(certificates), 'certificate')}.`)
          done()
        }}
      />
      <TellOwners serial_numbers={serial_numbers} count={count} done={giveUp} />
      {isMuted ? (
        <Action
          needs="unmuteAtRisk"
          kind="small"
          text="Unmute …"
          action="Unmute"
          title={`Unmute ${count}`}
          consequence={<p>They are listed again until they have a successor.</p>}
          onConfirm={async () => {
            const { certificates } = await call('unmuteAtRisk', { body: { serial_numbers } })
            tell(`${plural(countText(certificates), 'certificate')} unmuted.`)
            done()
          }}
        />
      ) : (
        <Mute serial_numbers={serial_numbers} count={count} done={done} />
      )}
    </>
  )
}

function Mute({ serial_numbers, count, done }: { serial_numbers: string[]; count: string; done: () => void }) {
  const [reason, setReason] = useState('')
  const [until, setUntil] = useState('')
  return (
    <Action
      needs="muteAtRisk"
      kind="small"
      text="Mute …"
      action="Mute"
      title={`Mute ${count}`}
      consequence={<p>They leave this list. The filter “Only muted” shows them, with who muted them and why.</p>}
      onConfirm={async () => {
        const body = { serial_numbers, reason, ...withWholeDays(until === '' ? {} : { until }) }
        const { certificates } = await call('muteAtRisk', { body })
        tell(`${plural(countText(certificates), 'certificate')} muted.`)
        done()
      }}
    >
      <TextField label="Reason" value={reason} onChange={setReason} required />
      <DayField
        label="Until"
        value={until}
        onChange={setUntil}
        help="Without a day, until they are renewed, revoked or expired."
      />
    </Action>
  )
}
