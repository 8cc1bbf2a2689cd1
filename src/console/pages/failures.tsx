/** Lists what clients of all accounts could not do, and why. */

import { type Explanation, explainFailure } from '../../domain/failure-advice.ts'
import { type Input, type Output, useList } from '../api.ts'
import { AccountLink, Badge, Empty, Time } from '../components/basics.tsx'
import { ListPage } from '../components/list.tsx'
import type { Column } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { instantText, zoneName } from '../time-zone.ts'

type Failure = Output<'listFailures'>[number]

/** The page with more details. */
const FailureLinks = ({ authorizationId, orderId }: Pick<Explanation, 'authorizationId' | 'orderId'>) => (
  <>
    {authorizationId && <a href={href(`/authorizations/${authorizationId}`)}>Evidence</a>}
    {orderId && <a href={href(`/orders/${orderId}`)}>Order</a>}
  </>
)

function Why({ failure }: { failure: Failure }) {
  const { detail, advice, ...places } = explainFailure(failure)
  return (
    <>
      {detail !== '' && <div>{detail}</div>}
      <div class="quiet">{advice}</div>
      <FailureLinks {...places} />
    </>
  )
}

const COLUMNS: readonly Column<Failure>[] = [
  {
    head: 'Time',
    kind: 'fixed',
    by: ({ occurred_at }) => occurred_at,
    cell: ({ occurred_at }) => <Time at={occurred_at} relative={false} />,
  },
  {
    head: 'What failed',
    kind: 'wide',
    cell: (failure) => {
      const { title, names } = explainFailure(failure)
      return (
        <>
          <Badge tone="bad">{title}</Badge> {names.slice(0, 5).join(', ')}
        </>
      )
    },
  },
  { head: 'Reason', kind: 'wide', cell: (failure) => <Why failure={failure} /> },
  { head: 'Account', cell: ({ account_id, account_name }) => <AccountLink id={account_id} name={account_name} /> },
]

export function FailuresPage({ query, entry }: PageProps) {
  const { since } = query
  const list = useList('listFailures', { query: since === undefined ? {} : { since } } as Input<'listFailures'>, entry)
  return (
    <ListPage
      title="Failures"
      about="Refused orders and requests, failed validations and issuances, within a second. Each account keeps its last 50 failures, for 30 days."
      list={list}
      columns={COLUMNS}
      empty={<Empty title="No failures" />}
    >
      {since !== undefined && !Number.isNaN(Date.parse(since)) && (
        <p>
          Since {instantText(since)} {zoneName()}. <a href={href('/failures')}>Show all</a>
        </p>
      )}
    </ListPage>
  )
}

export const FailureList = ({ failures }: { failures: Output<'listFailuresOfAccount'> }) => (
  <ul class="failures">
    {failures.map((failure) => (
      <FailureItem key={failure.id} failure={failure} />
    ))}
  </ul>
)

function FailureItem({ failure }: { failure: Output<'listFailuresOfAccount'>[number] }) {
  const { title, detail, names, advice, ...places } = explainFailure(failure)
  return (
    <li class="failure">
      <h3>
        <Badge tone="bad">{title}</Badge> {names.slice(0, 5).join(', ')}
      </h3>
      <p>
        <Time at={failure.occurred_at} />
      </p>
      {detail !== '' && <p>{detail}</p>}
      <p class="quiet">{advice}</p>
      <FailureLinks {...places} />
    </li>
  )
}
