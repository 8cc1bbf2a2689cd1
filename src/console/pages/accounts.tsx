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
import { WORDS } from '../words.ts'

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
  { head: WORDS.pages.account, kind: 'wide', cell: ({ id }) => <AccountLink id={id} /> },
  { head: WORDS.common.status, cell: (account) => <AccountStatus {...account} /> },
  { head: WORDS.common.kid, kind: 'wide', cell: ({ eab_kid }) => eab_kid ?? <span class="quiet">–</span> },
  { head: WORDS.common.created, kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} /> },
]

const CSV: CsvFile<Account> = {
  name: 'accounts.csv',
  members: ['id', 'status', 'eab_kid', 'jwk_thumbprint', 'tos_agreed', 'created_at', 'updated_at'],
}

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: WORDS.common.status,
    options: (['valid', 'deactivated', 'revoked'] as const).map((status) => [status, status] as const),
  },
  { name: 'contact', label: WORDS.accounts.contact, placeholder: 'admin@example.com' },
  { name: 'eab_kid', label: WORDS.common.kid },
  { name: 'created_after', label: WORDS.common.createdAfter, type: 'date' },
]

export function AccountsPage({ query, entry }: PageProps) {
  const list = useList('listAccounts', { query: withWholeDays(query) } as Input<'listAccounts'>, entry)
  const isFiltered = Object.keys(query).length > 0
  return (
    <Page title={WORDS.pages.accounts}>
      <FilterBar query={query} filters={FILTERS} />
      <List
        caption={WORDS.pages.accounts}
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        csv={CSV}
        empty={
          isFiltered ? (
            <Empty title={WORDS.table.noMatch} />
          ) : (
            <Empty title={WORDS.accounts.empty}>
              <p>{WORDS.accounts.begin}</p>
              <Allowed to="listEabCredentials">
                <a class="button" href={href('/eab')}>
                  {WORDS.pages.eab}
                </a>
              </Allowed>
            </Empty>
          )
        }
      />
    </Page>
  )
}
