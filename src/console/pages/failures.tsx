/** Lists what clients of all accounts could not do, and why. */

import { type Input, type Output, useList } from '../api.ts'
import { Badge, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { instantText } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
import { AccountLink } from './accounts.tsx'
import { type Explanation, explainFailure } from './failure-words.ts'

type Failure = Output<'listFailures'>[number]

const words = WORDS.failures

/** The page with more details. */
export const FailureLinks = ({ authorizationId, orderId }: Pick<Explanation, 'authorizationId' | 'orderId'>) => (
  <>
    {authorizationId && <a href={href(`/authorizations/${authorizationId}`)}>{WORDS.orders.toEvidence}</a>}
    {orderId && <a href={href(`/orders/${orderId}`)}>{WORDS.orders.toOrder}</a>}
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
  { head: words.at, kind: 'fixed', cell: ({ occurred_at }) => <Time at={occurred_at} relative={false} /> },
  {
    head: words.what,
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
  { head: words.why, kind: 'wide', cell: (failure) => <Why failure={failure} /> },
  { head: WORDS.pages.account, kind: 'fixed', cell: ({ account_id }) => <AccountLink id={account_id} short /> },
]

export function FailuresPage({ query, entry }: PageProps) {
  const { since } = query
  const list = useList('listFailures', { query: since === undefined ? {} : { since } } as Input<'listFailures'>, entry)
  return (
    <Page title={WORDS.pages.failures}>
      <p class="quiet">
        {words.about} {words.kept}
      </p>
      {since !== undefined && !Number.isNaN(Date.parse(since)) && (
        <p>
          {words.since(instantText(since))} <a href={href('/failures')}>{words.all}</a>
        </p>
      )}
      <List
        caption={WORDS.pages.failures}
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={<Empty title={words.empty} />}
      />
    </Page>
  )
}
