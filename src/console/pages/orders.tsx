/** Orders of all accounts. */

import { type Input, type Output, useList } from '../api.ts'
import { Badge, Empty, Time, type Tone } from '../components/basics.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { type Filter, FilterBar } from '../components/filter-bar.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { withWholeDays } from '../days.ts'
import { href, type PageProps } from '../router.ts'
import { AccountLink } from './accounts.tsx'

type Order = Output<'listOrders'>[number]

const STATUSES = ['pending', 'ready', 'processing', 'valid', 'invalid'] as const
const TONES: Readonly<Record<string, Tone>> = { valid: 'good', invalid: 'bad', processing: 'warn' }
export const OrderStatus = ({ status }: { status: string }) => <Badge tone={TONES[status] ?? 'plain'}>{status}</Badge>

/** The error of an order or challenge (RFC 7807). */
export const detailOf = (error: Readonly<Record<string, unknown>> | null): string =>
  typeof error?.['detail'] === 'string' ? error['detail'] : ''

/** An order that a failed validation has ended has no error of its own. */
const reasonOf = ({ id, status, error }: Order) =>
  status === 'invalid' && error === null ? <a href={href(`/orders/${id}`)}>View validations</a> : detailOf(error)

export const ORDER_COLUMNS: readonly Column<Order>[] = [
  {
    head: 'Names',
    kind: 'wide',
    cell: ({ id, identifiers }) => (
      <a href={href(`/orders/${id}`)}>{identifiers.map(({ value }) => value).join(', ')}</a>
    ),
  },
  { head: 'Status', cell: ({ status }) => <OrderStatus status={status} /> },
  { head: 'Error', kind: 'wide', cell: reasonOf },
  { head: 'Created', kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} /> },
]

const WITH_ACCOUNT: readonly Column<Order>[] = [
  ...ORDER_COLUMNS,
  { head: 'Account', kind: 'fixed', cell: ({ account_id }) => <AccountLink id={account_id} short /> },
]

const CSV: CsvFile<Order> = {
  name: 'orders.csv',
  members: ['id', 'account_id', 'status', 'identifiers', 'created_at', 'expires_at', 'certificate_id', 'error'],
}

const FILTERS: readonly Filter[] = [
  { name: 'domain', label: 'Exact name', placeholder: 'www.example.com' },
  { name: 'status', label: 'Status', options: STATUSES.map((status) => [status, status] as const) },
  { name: 'created_after', label: 'Created from', type: 'date' },
  { name: 'created_before', label: 'Created until', type: 'date' },
]

export function OrdersPage({ query, entry }: PageProps) {
  const list = useList('listOrders', { query: withWholeDays(query) } as Input<'listOrders'>, entry)
  const isFiltered = Object.keys(query).length > 0
  return (
    <Page title="Orders">
      <FilterBar query={query} filters={FILTERS} />
      <List
        caption="Orders"
        list={list}
        columns={WITH_ACCOUNT}
        rowKey={({ id }) => id}
        csv={CSV}
        empty={<Empty title={isFiltered ? 'No matches' : 'No orders yet'} />}
      />
    </Page>
  )
}
