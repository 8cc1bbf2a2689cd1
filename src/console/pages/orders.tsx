/** Orders, one order or authorization with its challenges, and the evidence of each validation. */

import type { Input, Output } from '../api.ts'
import { AccountLink, Badge, Copyable, Empty, Facts, Ready, Time, type Tone } from '../components/basics.tsx'
import type { CsvFile } from '../components/csv.tsx'
import type { Filter } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { Page, Section } from '../components/page.tsx'
import { type Column, Table, timeColumn } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { withWholeDays } from '../time-zone.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'
import { FailureList } from './failures.tsx'

type ListedOrder = Output<'listOrders'>[number]

const STATUSES = ['pending', 'ready', 'processing', 'valid', 'invalid'] as const
const TONES: Readonly<Record<string, Tone>> = { valid: 'good', invalid: 'bad', processing: 'warn' }
const OrderStatus = ({ status }: { status: string }) => <Badge tone={TONES[status] ?? 'plain'}>{status}</Badge>

/** The error of an order or challenge (RFC 7807). */
export const detailOf = (error: Readonly<Record<string, unknown>> | null): string =>
  typeof error?.['detail'] === 'string' ? error['detail'] : ''

/** An order that a failed validation has ended has no error of its own. */
const reasonOf = ({ id, status, error }: ListedOrder) =>
  status === 'invalid' && error === null ? <a href={href(`/orders/${id}`)}>View validations</a> : detailOf(error)

export const ORDER_COLUMNS: readonly Column<ListedOrder>[] = [
  {
    head: 'Names',
    kind: 'wide',
    cell: ({ id, identifiers }) => (
      <a href={href(`/orders/${id}`)}>{identifiers.map(({ value }) => value).join(', ')}</a>
    ),
  },
  { head: 'Status', by: ({ status }) => status, cell: ({ status }) => <OrderStatus status={status} /> },
  { head: 'Error', kind: 'wide', cell: reasonOf },
  timeColumn('Created', 'created_at'),
]

const WITH_ACCOUNT: readonly Column<ListedOrder>[] = [
  ...ORDER_COLUMNS,
  { head: 'Account', cell: ({ account_id, account_name }) => <AccountLink id={account_id} name={account_name} /> },
]

const CSV: CsvFile<ListedOrder> = {
  name: 'orders.csv',
  members: [
    'id',
    'account_id',
    'account_name',
    'status',
    'identifiers',
    'created_at',
    'expires_at',
    'certificate_id',
    'error',
  ],
}

const FILTERS: readonly Filter[] = [
  { name: 'domain', label: 'Exact name', placeholder: 'www.example.com' },
  { name: 'status', label: 'Status', options: STATUSES.map((status) => [status, status] as const) },
  { name: 'created_after', label: 'Created from', type: 'date' },
  { name: 'created_before', label: 'Created until', type: 'date' },
]

export function OrdersPage({ query, entry }: PageProps) {
  const list = useList('listOrders', { query: withWholeDays(query) } as Input<'listOrders'>, entry)
  return (
    <ListPage
      title="Orders"
      query={query}
      filters={FILTERS}
      list={list}
      columns={WITH_ACCOUNT}
      csv={CSV}
      empty={<Empty title="No orders yet" />}
    />
  )
}

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
    <Section title="Failures of this order">
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
    </Section>
  )
}

export function AuthorizationPage({ params }: PageProps) {
  const loaded = useApi('getAuthorization', { params: { authorization_id: params['authorization'] ?? '' } })
  return (
    <Page title="Authorization">
      <Ready loaded={loaded}>
        {(authorization) => (
          <>
            <Facts
              rows={[
                [
                  'Account',
                  <AccountLink key="account" id={authorization.account_id} name={authorization.account_name} />,
                ],
              ]}
            />
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
      ['Account', <AccountLink key="account" id={order.account_id} name={order.account_name} />],
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
    <Section
      title={
        <>
          {wildcard ? '*.' : ''}
          {identifier.value} <OrderStatus status={status} />
        </>
      }
    >
      <p class="quiet">
        Expires: <Time at={expires_at} />
      </p>
      <Table
        caption={`Challenges of ${identifier.value}`}
        rows={challenges}
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
    </Section>
  )
}

type JsonObject = Readonly<Record<string, unknown>>

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)

/** Everything in it may come from a stranger; it is drawn as text. */
export function Evidence({ record }: { record: JsonObject }) {
  const { type, attempt, at, ms, result, detail, caa, steps } = record
  return (
    <details open={result !== 'success'}>
      <summary>Evidence of the attempt that decided</summary>
      <Facts
        rows={[
          [
            'Verdict',
            <Badge key="verdict" tone={result === 'success' ? 'good' : 'bad'}>
              {textOf(result)}
            </Badge>,
          ],
          ['Detail', textOf(detail)],
          ['Challenge', textOf(type)],
          ['Attempt', textOf(attempt)],
          ['Time', typeof at === 'string' ? <Time key="at" at={at} /> : ''],
          ['Duration', ms === undefined ? '' : `${textOf(ms)} ms`],
          ['CAA', textOf(caa)],
        ]}
      />
      <ol class="steps">
        {(Array.isArray(steps) ? (steps as JsonObject[]) : []).map((step, index) => (
          <li key={index}>
            <Step step={step} />
          </li>
        ))}
      </ol>
    </details>
  )
}

function Step({ step: { step, ...facts } }: { step: JsonObject }) {
  return (
    <>
      <strong>{textOf(step)}</strong>
      <Facts rows={Object.entries(facts).map(([name, value]) => [name, textOf(value)] as const)} />
    </>
  )
}
