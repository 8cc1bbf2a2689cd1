/** One order with its authorizations, their challenges, and the evidence of each. */

import { type Output, useApi } from '../api.ts'
import { Badge, Copyable, Facts, Ready, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
import { FailureList } from './account.tsx'
import { AccountLink } from './accounts.tsx'
import { Evidence } from './evidence.tsx'
import { detailOf, OrderStatus } from './orders.tsx'

type Order = Output<'getOrder'>
type Authorization = Output<'getAuthorization'>

export function OrderPage({ params }: PageProps) {
  const loaded = useApi('getOrder', { params: { order_id: params['order'] ?? '' } })
  return (
    <Page title={WORDS.pages.order}>
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
      <h2>{WORDS.orders.failures}</h2>
      <Ready loaded={loaded}>
        {(all) => {
          const failures = all.filter(({ data }) =>
            [data['order_id'], data['authorization_id']].some((id) => names.includes(String(id))),
          )
          return failures.length > 0 ? (
            <FailureList failures={failures} />
          ) : (
            <p class="quiet">{WORDS.orders.noFailures}</p>
          )
        }}
      </Ready>
    </section>
  )
}

export function AuthorizationPage({ params }: PageProps) {
  const loaded = useApi('getAuthorization', { params: { authorization_id: params['authorization'] ?? '' } })
  return (
    <Page title={WORDS.pages.authorization}>
      <Ready loaded={loaded}>
        {(authorization) => (
          <>
            <Facts rows={[[WORDS.pages.account, <AccountLink key="account" id={authorization.account_id} />]]} />
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
      [WORDS.orders.names, order.identifiers.map(({ value }) => value).join(', ')],
      [WORDS.common.status, <OrderStatus key="status" status={order.status} />],
      [WORDS.orders.error, detailOf(order.error)],
      [WORDS.pages.account, <AccountLink key="account" id={order.account_id} />],
      [WORDS.orders.profile, order.profile],
      [WORDS.common.created, <Time key="created" at={order.created_at} />],
      [WORDS.common.expires, <Time key="expires" at={order.expires_at} />],
      order.certificate_id !== null && [
        WORDS.pages.certificates,
        <a key="certificates" href={href('/certificates', { account_id: order.account_id })}>
          {WORDS.accounts.certificates}
        </a>,
      ],
      [WORDS.common.id, <Copyable key="id" text={order.id} />],
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
        {WORDS.common.expires}: <Time at={expires_at} />
      </p>
      <Table
        caption={WORDS.orders.challengesOf(identifier.value)}
        rows={challenges}
        rowKey={({ id }) => id}
        columns={[
          { head: WORDS.orders.challenge, cell: ({ type }) => type },
          { head: WORDS.common.status, cell: (challenge) => <OrderStatus status={challenge.status} /> },
          { head: WORDS.orders.tries, kind: 'number', cell: ({ tries }) => tries },
          { head: WORDS.orders.error, kind: 'wide', cell: ({ error }) => detailOf(error) },
        ]}
      />
      {evidence ? (
        <Evidence record={evidence} />
      ) : (
        <p class="quiet">
          <Badge>{status === 'pending' ? WORDS.orders.noEvidence : WORDS.orders.noneRecorded}</Badge>
        </p>
      )}
    </section>
  )
}
