/** ACME accounts. */

import type { Input, Output } from '../api.ts'
import { useList } from '../api.ts'
import { Allowed, Badge, Empty, Time, type Tone } from '../components/basics.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { type Filter, FilterBar } from '../components/filter-bar.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { withWholeDays } from '../days.ts'
import { href, type PageProps } from '../router.ts'

type Account = Output<'listAccounts'>[number]

const TONES: Readonly<Record<Account['status'], Tone>> = { valid: 'good', deactivated: 'plain', revoked: 'bad' }
export const AccountStatus = ({ status }: Pick<Account, 'status'>) => <Badge tone={TONES[status]}>{status}</Badge>

/** The end of an id is random; its beginning is the time. */
export const AccountLink = ({ id, short = false }: { id: string; short?: boolean }) => (
  <a class="mono" href={href(`/accounts/${id}`)} title={id}>
    {short ? id.slice(-12) : id}
  </a>
)

const COLUMNS: readonly Column<Account>[] = [
  { head: 'Account', kind: 'wide', cell: ({ id }) => <AccountLink id={id} /> },
  { head: 'Status', cell: (account) => <AccountStatus {...account} /> },
  { head: 'Key identifier', kind: 'wide', cell: ({ eab_kid }) => eab_kid ?? <span class="quiet">–</span> },
  { head: 'Created', kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} /> },
]

const CSV: CsvFile<Account> = {
  name: 'accounts.csv',
  members: ['id', 'status', 'eab_kid', 'jwk_thumbprint', 'tos_agreed', 'created_at', 'updated_at'],
}

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: (['valid', 'deactivated', 'revoked'] as const).map((status) => [status, status] as const),
  },
  { name: 'contact', label: 'Contact contains', placeholder: 'admin@example.com' },
  { name: 'eab_kid', label: 'Key identifier' },
  { name: 'created_after', label: 'Created from', type: 'date' },
]

export function AccountsPage({ query, entry }: PageProps) {
  const list = useList('listAccounts', { query: withWholeDays(query) } as Input<'listAccounts'>, entry)
  const isFiltered = Object.keys(query).length > 0
  return (
    <Page title="Accounts">
      <FilterBar query={query} filters={FILTERS} />
      <List
        caption="Accounts"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        csv={CSV}
        empty={
          isFiltered ? (
            <Empty title="No matches" />
          ) : (
            <Empty title="No accounts yet">
              <p>An account appears when a client registers. Create a credential, and copy a command from it.</p>
              <Allowed to="listEabCredentials">
                <a class="button" href={href('/eab')}>
                  EAB credentials
                </a>
              </Allowed>
            </Empty>
          )
        }
      />
    </Page>
  )
}
