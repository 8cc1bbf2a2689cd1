/** Certificates whose renewal window is open and that nobody has renewed. For chosen rows clients are advised, owners get a mail, or they are muted. */

import { AT_RISK_FILTERS } from '../../admin/resources/certificates.ts'
import { explainFailure } from '../../domain/failure-advice.ts'
import { call, type Output } from '../api.ts'
import { Empty, LongText, Ready, Time } from '../components/basics.tsx'
import { ACCOUNT, CLIENT, type Column, LAST_SEEN } from '../components/columns.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { listPage } from '../components/list.tsx'
import { counted } from '../format.ts'
import { RENEWAL_ADVICE } from '../labels.ts'
import { withWholeDays } from '../preferences.ts'
import { href } from '../router.ts'
import { useApi } from '../use-api.ts'
import { CertificateStatus, Names } from './certificates.tsx'

type AtRisk = Output<'listAtRisk'>[number]

/** Shows what the client has tried since the window opened. */
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
  { head: 'Expires', member: 'not_after', kind: 'time' },
  { ...ACCOUNT, by: ({ account_name }) => account_name },
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

export const AtRiskPage = listPage('listAtRisk', {
  title: 'At risk',
  about:
    'Certificates whose renewal window is open, without a newer certificate for their names. The one that expires first is at the top.',
  filters: AT_RISK_FILTERS,
  columns: (_reload, { muted }) => (muted === 'true' ? MUTED_COLUMNS : COLUMNS),
  csv: CSV,
  chosen: {
    needs: 'adviseRenewal',
    actions: (chosen, done, { muted }) => <ChosenActions chosen={chosen} isMuted={muted === 'true'} done={done} />,
  },
  empty: (
    <Empty
      title="Nothing is at risk"
      about="Each certificate whose renewal window is open has a successor, or is muted."
    />
  ),
})

interface ChosenProps {
  chosen: readonly AtRisk[]
  isMuted: boolean
  done: () => void
}

function ChosenActions({ chosen, isMuted, done }: ChosenProps) {
  const serial_numbers = chosen.map(({ serial_number }) => serial_number)
  const accounts = new Set(chosen.map(({ account_id }) => account_id)).size
  const count = counted(chosen.length, 'certificate')
  return (
    <>
      <Action
        needs="adviseRenewal"
        kind="small"
        text="Ask to renew …"
        action="Ask to renew now"
        title={`Ask to renew ${count} of ${counted(accounts, 'account')}`}
        consequence={RENEWAL_ADVICE}
        onConfirm={() => call('adviseRenewal', { body: { filter: { serial_numbers } } })}
        done={({ certificates }) => `Renewal information asks to renew ${counted(certificates, 'certificate')}.`}
        onDone={done}
      />
      <TellOwners serial_numbers={serial_numbers} count={count} done={done} />
      {isMuted ? (
        <Action
          needs="unmuteAtRisk"
          kind="small"
          text="Unmute …"
          action="Unmute"
          title={`Unmute ${count}`}
          consequence="They are listed again until they have a successor."
          onConfirm={() => call('unmuteAtRisk', { body: { serial_numbers } })}
          done={({ certificates }) => `${counted(certificates, 'certificate')} unmuted.`}
          onDone={done}
        />
      ) : (
        <Action
          needs="muteAtRisk"
          kind="small"
          text="Mute …"
          action="Mute"
          title={`Mute ${count}`}
          consequence="They leave this list. The filter “Only muted” shows them, with who muted them and why."
          fields={{
            reason: { label: 'Reason', required: true },
            until: {
              label: 'Until',
              type: 'date',
              help: 'Without a day, until they are renewed, revoked or expired.',
            },
          }}
          onConfirm={({ reason, until }) => {
            const body = { serial_numbers, reason, ...withWholeDays(until === '' ? {} : { until }) }
            return call('muteAtRisk', { body })
          }}
          done={({ certificates }) => `${counted(certificates, 'certificate')} muted.`}
          onDone={done}
        />
      )}
    </>
  )
}

interface TellOwnersProps {
  serial_numbers: string[]
  /** The number of the certificates, as text. */
  count: string
  done: () => void
}

/** Asks the owners of the chosen certificates to renew. The mails and their recipients are shown first. */
const TellOwners = ({ serial_numbers, count, done }: TellOwnersProps) => (
  <Action
    needs="notifyAtRisk"
    kind="small"
    text="Tell the owner …"
    action="Send"
    title={`Tell the owners of ${count}`}
    onConfirm={() => call('notifyAtRisk', { body: { serial_numbers } })}
    done={({ mails, without_contact }) => `${counted(mails, 'mail')} queued.${withoutContact(without_contact)}`}
    onDone={done}
  >
    <Preview serial_numbers={serial_numbers} />
  </Action>
)

const withoutContact = (count: number) =>
  count === 0 ? '' : ` ${counted(count, 'account')} without a contact cannot be written to.`

function Preview({ serial_numbers }: Pick<TellOwnersProps, 'serial_numbers'>) {
  const loaded = useApi('notifyAtRisk', { body: { serial_numbers, dry_run: true } })
  return (
    <div aria-live="polite">
      <Ready loaded={loaded}>{(preview) => <Mails preview={preview} />}</Ready>
    </div>
  )
}

const Mails = ({ preview }: { preview: Output<'notifyAtRisk'> }) => (
  <>
    <p>
      {counted(preview.mails, 'mail')} about {counted(preview.certificates, 'certificate')}.
      {withoutContact(preview.without_contact)}
      {!preview.enabled && ' Mail is off (smtp.enabled, notifications.enabled): nobody can be told.'}
    </p>
    {preview.owners.map(({ account_id, account_name, recipients, passed_over, subject, text }) => (
      <details key={account_id} open={preview.owners.length === 1}>
        <summary>
          {account_name ?? account_id}: {[...recipients, ...passed_over].join(', ') || 'no contact'}
        </summary>
        {passed_over.length > 0 && (
          <p>No more today, after three of these mails in 24 hours: {passed_over.join(', ')}.</p>
        )}
        {recipients.length > 0 && (
          <>
            <p>
              <strong>{subject}</strong>
            </p>
            <LongText>{text}</LongText>
          </>
        )}
      </details>
    ))}
  </>
)
