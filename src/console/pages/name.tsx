/** A page that says why a name has its certificate, or has none: its state, its last failure with advice, and its time line. */

import type { Output } from '../api.ts'
import { AccountLink, Badge, Copyable, Empty, Facts, Time, type Tone } from '../components/basics.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { Section } from '../components/page.tsx'
import { href, type PageProps } from '../router.ts'
import { useSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { Evidence } from './orders.tsx'

type History = Output<'getNameHistory'>
type Entry = History['entries'][number]
const NAMES_SHOWN = 5

export function NamePage({ params, query: { before } }: PageProps) {
  const name = params['name'] ?? ''
  const loaded = useApi('getNameHistory', {
    params: { name },
    query: before === undefined ? {} : { before },
  })
  return (
    <LoadedPage title={name} loaded={loaded}>
      {(history) => (
        <>
          <Now history={history} />
          <LastFailure failure={history.state.last_failure} />
          <TimeLine history={history} isFirst={before === undefined} />
        </>
      )}
    </LoadedPage>
  )
}

function Now({ history: { name, covered_by, state } }: { history: History }) {
  const { certificate, account_id, account_name } = state
  const { user } = useSession()
  return (
    <Section title="Now">
      <Facts
        rows={[
          [
            'Certificate',
            certificate === null ? (
              <Badge tone="warn">
                {user?.role === 'registrar' ? 'None of your accounts has a valid one' : 'None is valid'}
              </Badge>
            ) : (
              <a href={href(`/certificates/${certificate.serial_number}`)}>
                {certificate.names.slice(0, NAMES_SHOWN).join(', ') || certificate.serial_number}
              </a>
            ),
          ],
          certificate !== null && ['Valid until', <Time at={certificate.not_after} />],
          certificate !== null && [
            'Renewal window',
            <>
              <Time at={certificate.window_start} /> to <Time at={certificate.window_end} relative={false} />
            </>,
          ],
          account_id !== null && ['Account', <AccountLink id={account_id} name={account_name} />],
          covered_by.length > 1 && ['Also searched', covered_by.slice(1).join(', ')],
          ['All certificates', <a href={href('/certificates', { domain: name })}>Certificates of this name</a>],
        ]}
      />
    </Section>
  )
}

function LastFailure({ failure }: { failure: History['state']['last_failure'] }) {
  if (failure === null) return null
  const { at, title, detail, advice, command, resolved } = failure
  return (
    <Section title="Last failure">
      <div class="entry failure">
        <p>
          <Badge tone={resolved ? 'plain' : 'bad'}>{title}</Badge> <Time at={at} />
          {resolved && ' A certificate was issued since.'}
        </p>
        {detail !== '' && <p>{detail}</p>}
        <p>
          <strong>{advice}</strong>
        </p>
        {command !== null && <Copyable text={command} block />}
      </div>
    </Section>
  )
}

function TimeLine({ history: { name, entries, next, not_known }, isFirst }: { history: History; isFirst: boolean }) {
  const path = `/names/${encodeURIComponent(name)}`
  return (
    <Section title="Time line">
      {entries.length === 0 && <Empty title="Nothing is known of this name" />}
      <ol class="entries">
        {entries.map((entry) => (
          <li
            key={`${entry.kind} ${entry.at} ${entry.serial_number ?? entry.order_id ?? ''}`}
            class={`entry ${entry.kind}`}
          >
            <TimeLineEntry entry={entry} />
          </li>
        ))}
      </ol>
      <p class="details">
        {!isFirst && <a href={href(path)}>Newest</a>}
        {next !== null && <a href={href(path, { before: next })}>Older</a>}
      </p>
      {not_known.map((sentence) => (
        <p key={sentence} class="quiet">
          {sentence}
        </p>
      ))}
    </Section>
  )
}

const TONES: Readonly<Record<Entry['kind'], Tone>> = {
  order: 'plain',
  failure: 'bad',
  certificate: 'good',
  revocation: 'warn',
}

function TimeLineEntry({ entry }: { entry: Entry }) {
  const { kind, at, title, detail, names, account_id, account_name, validations } = entry
  return (
    <>
      <h3>
        <Badge tone={TONES[kind]}>{title}</Badge> {names.slice(0, NAMES_SHOWN).join(', ')}
        {names.length > NAMES_SHOWN && ` and ${names.length - NAMES_SHOWN} more`}
      </h3>
      <p>
        <Time at={at} /> {account_id !== null && <AccountLink id={account_id} name={account_name} />}
      </p>
      {detail !== '' && <p>{detail}</p>}
      <EntryLinks entry={entry} />
      {validations.map(({ authorization_id, wildcard, status, evidence }) => (
        <div key={authorization_id}>
          <p>
            Validation{wildcard ? ' for the wildcard' : ''}: {status}
          </p>
          {evidence ? (
            <Evidence record={evidence} />
          ) : (
            <p class="quiet">{status === 'pending' ? 'No attempt has finished yet.' : 'No attempt is recorded.'}</p>
          )}
        </div>
      ))}
    </>
  )
}

const EntryLinks = ({ entry: { serial_number, replaces, order_id, authorization_id } }: { entry: Entry }) => (
  <p class="details">
    {serial_number !== null && <a href={href(`/certificates/${serial_number}`)}>Certificate</a>}
    {replaces !== null && <a href={href(`/certificates/${replaces}`)}>Renewed certificate</a>}
    {authorization_id !== null && <a href={href(`/authorizations/${authorization_id}`)}>Evidence</a>}
    {order_id !== null && <a href={href(`/orders/${order_id}`)}>Order</a>}
  </p>
)
