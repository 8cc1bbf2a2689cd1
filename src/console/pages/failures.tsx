/** Lists what clients of all accounts could not do, and why. */

import { FAILURE_FILTERS } from '../../admin/resources/accounts.ts'
import { type Explanation, explainFailure, titleOfFailure } from '../../domain/failure-advice.ts'
import type { Input, Output } from '../api.ts'
import { Badge, Empty, Ready, Time } from '../components/basics.tsx'
import { ACCOUNT, type Column } from '../components/columns.tsx'
import { ViewLinks } from '../components/filters.tsx'
import { ListPage } from '../components/list.tsx'
import { Page } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { withWholeDays } from '../preferences.ts'
import { href, type PageProps, type Query } from '../router.ts'
import { useApi, useList } from '../use-api.ts'

type Failure = Output<'listFailures'>[number]

const NAMES_SHOWN = 5

/** Each name leads to its time line. */
const NameLinks = ({ names }: { names: readonly string[] }) => (
  <span class="names">
    {names.slice(0, NAMES_SHOWN).map((name) => (
      <a key={name} href={href(`/names/${encodeURIComponent(name)}`)}>
        {name}
      </a>
    ))}
    {names.length > NAMES_SHOWN && <span class="quiet">+{names.length - NAMES_SHOWN}</span>}
  </span>
)

/** Links to the pages with more details. */
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
  { head: 'Time', member: 'occurred_at', kind: 'instant' },
  {
    head: 'What failed',
    kind: 'wide',
    cell: (failure) => {
      const { title, names } = explainFailure(failure)
      return (
        <>
          <Badge tone="bad">{title}</Badge> <NameLinks names={names} />
        </>
      )
    },
  },
  { head: 'Reason', kind: 'wide', cell: (failure) => <Why failure={failure} /> },
  ACCOUNT,
]

const ABOUT =
  'Orders and certification requests that were refused, validations and issuances that failed. Each account keeps its last 50, for 30 days.'

/** One by one, or by cause with `by=cause`. */
export function FailuresPage({ query, entry }: PageProps) {
  const { by, ...filters } = query
  return by === 'cause' ? <Causes filters={filters} /> : <Each filters={filters} entry={entry} />
}

const Views = ({ filters, isByCause }: { filters: Query; isByCause: boolean }) => (
  <ViewLinks
    label="View"
    views={[
      { name: 'One by one', to: href('/failures', filters), isShown: !isByCause },
      { name: 'By cause', to: href('/failures', { ...filters, problem: undefined, by: 'cause' }), isShown: isByCause },
    ]}
  />
)

function Each({ filters, entry }: { filters: Query; entry: number }) {
  const list = useList('listFailures', { query: withWholeDays(filters) } as Input<'listFailures'>, entry)
  const { problem } = filters
  return (
    <ListPage
      title="Failures"
      about={ABOUT}
      query={filters}
      filters={FAILURE_FILTERS}
      list={list}
      columns={COLUMNS}
      empty={NONE}
    >
      <Views filters={filters} isByCause={false} />
      {problem !== undefined && (
        <p>
          Problem: {problem || 'none given'}.{' '}
          <a href={href('/failures', { ...filters, problem: undefined })}>Show all</a>
        </p>
      )}
    </ListPage>
  )
}

const NONE = <Empty title="No failures" />

type Cause = Output<'listFailureCauses'>[number]

function Causes({ filters }: { filters: Query }) {
  const { problem: _, ...asked } = filters
  const loaded = useApi('listFailureCauses', { query: withWholeDays(asked) } as Input<'listFailureCauses'>)
  return (
    <Page title="Failures">
      <p class="quiet">{ABOUT}</p>
      <Views filters={asked} isByCause />
      <Ready loaded={loaded}>
        {(causes) => (
          <Table
            caption="Failures by cause"
            columns={columnsOf(asked)}
            rows={causes}
            rowKey={({ kind, problem }) => `${kind} ${problem}`}
            empty={NONE}
          />
        )}
      </Ready>
    </Page>
  )
}

export const columnsOf = (filters: Query): Column<Cause>[] => [
  {
    head: 'Cause',
    kind: 'wide',
    cell: (cause) => (
      <>
        <a href={href('/failures', { ...filters, kind: cause.kind, problem: cause.problem || undefined })}>
          {titleOfFailure(cause.kind)}
          {cause.problem && `: ${cause.problem}`}
        </a>
        <div class="quiet">{explainFailure(cause).advice}</div>
      </>
    ),
  },
  { head: 'Failures', member: 'failures', kind: 'number' },
  { head: 'Accounts', member: 'accounts', kind: 'number' },
  {
    head: 'Names of the last',
    kind: 'wide',
    cell: (cause) => explainFailure(cause).names.slice(0, NAMES_SHOWN).join(', '),
  },
  { head: 'Last', member: 'last_at', kind: 'time' },
]

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
        <Badge tone="bad">{title}</Badge> <NameLinks names={names} />
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
