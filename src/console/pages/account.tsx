/** One ACME account: why its client gets no certificate, its orders, and what it may request. */

import { useState } from 'preact/hooks'
import { call, can, type Input, type Output, useApi, useList } from '../api.ts'
import { Allowed, Badge, Copyable, Empty, Facts, Ready, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { Page } from '../components/page.tsx'
import { List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
import { AccountStatus } from './accounts.tsx'
import { explainFailure } from './failure-words.ts'
import { FailureLinks } from './failures.tsx'
import { GrantedIdentifiers, GrantedProfile } from './grants.tsx'
import { ORDER_COLUMNS } from './orders.tsx'

type Account = Output<'getAccount'>

export function AccountPage({ params }: PageProps) {
  const id = params['account'] ?? ''
  const loaded = useApi('getAccount', { params: { account_id: id } })
  const [isDeactivating, setDeactivating] = useState(false)
  const { data } = loaded
  return (
    <Page
      title={`${WORDS.pages.account} ${id.slice(-12)}`}
      actions={
        <Allowed to="deactivateAccount">
          {data?.status === 'valid' && (
            <button type="button" class="danger" onClick={() => setDeactivating(true)}>
              {WORDS.accounts.deactivate}
            </button>
          )}
        </Allowed>
      }
    >
      <Ready loaded={loaded}>{(account) => <AccountFacts account={account} />}</Ready>
      {data && (
        <>
          <Failures id={id} />
          <Orders id={id} />
          <div class="columns">
            {can('listIdentifiersOfAccount') && <GrantedIdentifiers owner="account" id={id} />}
            <GrantedProfile owner="account" id={id} />
          </div>
        </>
      )}
      {isDeactivating && (
        <Confirm
          title={WORDS.accounts.deactivate}
          consequence={<p>{WORDS.accounts.deactivateConsequence}</p>}
          action={WORDS.accounts.deactivate}
          danger
          typed={id.slice(-12)}
          onClose={() => setDeactivating(false)}
          onConfirm={async () => {
            await call('deactivateAccount', { params: { account_id: id } })
            tell(WORDS.accounts.deactivated)
            loaded.reload()
          }}
        />
      )}
    </Page>
  )
}

const AccountFacts = ({ account }: { account: Account }) => (
  <>
    <Facts
      rows={[
        [WORDS.common.status, <AccountStatus key="status" {...account} />],
        [WORDS.common.id, <Copyable key="id" text={account.id} />],
        [WORDS.accounts.contacts, account.contacts.join(', ') || WORDS.app.none],
        [WORDS.accounts.thumbprint, <Copyable key="thumbprint" text={account.jwk_thumbprint} />],
        [WORDS.common.kid, account.eab_kid ?? WORDS.app.none],
        [WORDS.accounts.terms, account.tos_agreed ? WORDS.app.yes : WORDS.app.no],
        [WORDS.common.created, <Time key="created" at={account.created_at} />],
        [WORDS.common.changed, <Time key="changed" at={account.updated_at} />],
      ]}
    />
    <p>
      <a href={href('/certificates', { account_id: account.id })}>{WORDS.accounts.certificates}</a>
    </p>
  </>
)

function Failures({ id }: { id: string }) {
  const loaded = useApi('listFailuresOfAccount', { params: { account_id: id } })
  return (
    <section class="section">
      <h2>{WORDS.accounts.why}</h2>
      <Ready loaded={loaded}>
        {(failures) =>
          failures.length === 0 ? (
            <Empty title={WORDS.accounts.noFailures}>
              <p>{WORDS.accounts.noFailuresHelp}</p>
            </Empty>
          ) : (
            <>
              <FailureList failures={failures.slice(0, NEWEST)} />
              {failures.length > NEWEST && (
                <details>
                  <summary>{WORDS.accounts.older(countText(failures.length - NEWEST))}</summary>
                  <FailureList failures={failures.slice(NEWEST)} />
                </details>
              )}
            </>
          )
        }
      </Ready>
    </section>
  )
}

/** The newest say what is wrong now. */
const NEWEST = 10

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

function Orders({ id }: { id: string }) {
  const list = useList('listOrders', { query: { account_id: id } } as Input<'listOrders'>)
  return (
    <section class="section">
      <h2>{WORDS.pages.orders}</h2>
      <List
        caption={WORDS.pages.orders}
        list={list}
        columns={ORDER_COLUMNS}
        rowKey={(order) => order.id}
        empty={<Empty title={WORDS.orders.emptyOfAccount} />}
      />
    </section>
  )
}
