/** One order with its authorizations, their challenges, and the evidence of each. */

import { type Output, useApi } from '../api.ts'
import { Badge, Copyable, Facts, Ready, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { FailureList } from './account.tsx'
import { AccountLink } from './accounts.tsx'
import { Evidence } from './evidence.tsx'
import { detailOf, OrderStatus } from './orders.tsx'

type Order = Output<'getOrder'>
type Authorization = Output<'getAuthorization'>

export function OrderPage({ params }: PageProps) {
  const loaded = useApi('getOrder', { params: { order_id: params['order'] ?? '' } })
  return (
    <Page title="Order">
      <Ready loaded={loaded}>
        {(order) => (
          <>
            <OrderFacts order={order} />
            {order.authorizations.map((authorization) => (
              <AuthorizationSection key={authorization.id} authorization={authorization} />
            ))}
            <Failures order={order} />
          </>
        )}
      </Ready>
    </Page>
  )
}

/** A refused request leaves the order as it was, so its status does not tell. */
function Failures({ order }: { order: Order }) {
  const loaded = useApi('listFailuresOfAccount', { params: { account_id: order.account_id } })
  const names = [order.id, ...order.authorizations.map(({ id }) => id)]
  return (
    <section class="section">
      <h2>Failures of this order</h2>
      <Ready loaded={loaded}>
        {(all) => {
          const failures = all.filter(({ data }) =>
            [data['order_id'], data['authorization_id']].some((id) => names.includes(String(id))),
          )
          return failures.length > 0 ? (
            <FailureList failures={failures} />
          ) : (
            <p class="quiet">
              No failures of this order are kept. Each account keeps its last 50 failures, for 30 days.
            </p>
          )
        }}
      </Ready>
    </section>
  )
}

export function AuthorizationPage({ params }: PageProps) {
  const loaded = useApi('getAuthorization', { params: { authorization_id: params['authorization'] ?? '' } })
  return (
    <Page title="Authorization">
      <Ready loaded={loaded}>
        {(authorization) => (
          <>
            <Facts rows={[['Account', <AccountLink key="account" id={authorization.account_id} />]]} />
            <AuthorizationSection authorization={authorization} />
          </>
        )}
      </Ready>
    </Page>
  )
}

const OrderFacts = ({ order }: { order: Order }) => (
  <Facts
    rows={[
      ['Names', order.identifiers.map(({ value }) => value).join(', ')],
      ['Status', <OrderStatus key="status" status={order.status} />],
      ['Error', detailOf(order.error)],
      ['Account', <AccountLink key="account" id={order.account_id} />],
      ['CA profile', order.profile],
      ['Created', <Time key="created" at={order.created_at} />],
      ['Expires', <Time key="expires" at={order.expires_at} />],
      order.certificate_id !== null && [
        'Certificates',
        <a key="certificates" href={href('/certificates', { account_id: order.account_id })}>
          Certificates of this account
        </a>,
      ],
      ['Id', <Copyable key="id" text={order.id} />],
    ]}
  />
)

const AuthorizationSection = ({ authorization }: { authorization: Authorization }) => {
  const { identifier, wildcard, status, expires_at, challenges, evidence } = authorization
  return (
    <section class="section">
      <h2>
        {wildcard ? '*.' : ''}
        {identifier.value} <OrderStatus status={status} />
      </h2>
      <p class="quiet">
        Expires: <Time at={expires_at} />
      </p>
      <Table
        caption={`Challenges of ${identifier.value}`}
        rows={challenges}
        rowKey={({ id }) => id}
        columns={[
          { head: 'Challenge', cell: ({ type }) => type },
          { head: 'Status', cell: (challenge) => <OrderStatus status={challenge.status} /> },
          { head: 'Attempts', kind: 'number', cell: ({ tries }) => tries },
          { head: 'Error', kind: 'wide', cell: ({ error }) => detailOf(error) },
        ]}
      />
      {evidence ? (
        <Evidence record={evidence} />
      ) : (
        <p class="quiet">
          <Badge>{status === 'pending' ? 'No attempt has finished yet.' : 'No attempt is recorded.'}</Badge>
        </p>
      )}
    </section>
  )
}
