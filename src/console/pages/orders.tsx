/** Orders, one order or authorization with its challenges, and the evidence of each validation. */

import type { Output } from '../api.ts'
import { Badge, Empty, Facts, Ready, Time, type Tone } from '../components/basics.tsx'
import { ACCOUNT, type Column, factsOf } from '../components/columns.tsx'
import type { CsvFile } from '../components/csv.tsx'
import type { Filter } from '../components/filters.tsx'
import { listPage } from '../components/list.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { FailureList } from './failures.tsx'

type ListedOrder = Output<'listOrders'>[number]

const STATUSES = ['pending', 'ready', 'processing', 'valid', 'invalid'] as const
const TONES: Readonly<Record<string, Tone>> = { valid: 'good', invalid: 'bad', processing: 'warn' }
const STATUS: Column<{ status: string }> = { head: 'Status', member: 'status', sorts: true, tones: TONES }

/** The error of an order or challenge (RFC 7807). */
const detailOf = (error: Readonly<Record<string, unknown>> | null): string =>
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
  STATUS,
  { head: 'Error', kind: 'wide', cell: reasonOf },
  { head: 'Created', member: 'created_at', kind: 'time' },
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

export const OrdersPage = listPage('listOrders', {
  title: 'Orders',
  filters: FILTERS,
  columns: [...ORDER_COLUMNS, ACCOUNT],
  csv: CSV,
  empty: <Empty title="No orders yet" />,
})

type Order = Output<'getOrder'>
type Authorization = Output<'getAuthorization'>

const FACTS: readonly Column<Order>[] = [
  { head: 'Names', cell: ({ identifiers }) => identifiers.map(({ value }) => value).join(', ') },
  STATUS,
  { head: 'Error', cell: ({ error }) => detailOf(error) },
  ACCOUNT,
  { head: 'CA profile', member: 'profile' },
  { head: 'Created', member: 'created_at', kind: 'time' },
  { head: 'Expires', member: 'expires_at', kind: 'time' },
  {
    head: 'Certificates',
    cell: ({ certificate_id, account_id }) =>
      certificate_id !== null && <a href={href('/certificates', { account_id })}>Certificates of this account</a>,
  },
  { head: 'Id', member: 'id', kind: 'copy' },
]

export function OrderPage({ params }: PageProps) {
  const loaded = useApi('getOrder', { params: { order_id: params['order'] ?? '' } })
  return (
    <LoadedPage title="Order" loaded={loaded}>
      {(order) => (
        <>
          <Facts rows={factsOf(order, FACTS)} />
          {order.authorizations.map((authorization) => (
            <AuthorizationSection key={authorization.id} authorization={authorization} />
          ))}
          <Failures order={order} />
        </>
      )}
    </LoadedPage>
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
    <LoadedPage title="Authorization" loaded={loaded}>
      {(authorization) => (
        <>
          <Facts rows={factsOf(authorization, [ACCOUNT])} />
          <AuthorizationSection authorization={authorization} />
        </>
      )}
    </LoadedPage>
  )
}

const CHALLENGE_COLUMNS: readonly Column<Authorization['challenges'][number]>[] = [
  { head: 'Challenge', member: 'type' },
  STATUS,
  { head: 'Attempts', member: 'tries', kind: 'number' },
  { head: 'Error', kind: 'wide', cell: ({ error }) => detailOf(error) },
]

const AuthorizationSection = ({ authorization }: { authorization: Authorization }) => {
  const { identifier, wildcard, status, expires_at, challenges, evidence } = authorization
  return (
    <Section
      title={
        <>
          {wildcard ? '*.' : ''}
          {identifier.value} <Badge tone={TONES[status]}>{status}</Badge>
        </>
      }
    >
      <p class="quiet">
        Expires: <Time at={expires_at} />
      </p>
      <Table caption={`Challenges of ${identifier.value}`} rows={challenges} columns={CHALLENGE_COLUMNS} />
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
          ['Verdict', <Badge tone={result === 'success' ? 'good' : 'bad'}>{textOf(result)}</Badge>],
          ['Detail', textOf(detail)],
          ['Challenge', textOf(type)],
          ['Attempt', textOf(attempt)],
          ['Time', typeof at === 'string' ? <Time at={at} /> : ''],
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
