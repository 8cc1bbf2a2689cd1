/** ACME accounts: the list, and one with its failures, its orders, and what it may request. */

import { ACCOUNT_FILTERS, ACCOUNT_MEMBERS } from '../../admin/resources/accounts.ts'
import { call, can, type Input, type Output } from '../api.ts'
import { AccountLink, ButtonLink, Empty, Facts, Ready, Tags } from '../components/basics.tsx'
import { CLIENT, type Column, factsOf, LAST_SEEN } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { List, listPage } from '../components/list.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { Section } from '../components/page.tsx'
import { countText, tagsOf } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { useApi, useList } from '../use-api.ts'
import { shortId } from './certificates.tsx'
import { FailureList } from './failures.tsx'
import { GrantedIdentifiers, GrantedProfile } from './grants.tsx'
import { ORDER_COLUMNS } from './orders.tsx'

type ListedAccount = Output<'listAccounts'>[number]
type Account = Output<'getAccount'>

const STATUS: Column<Pick<Account, 'status'>> = {
  head: 'Status',
  member: 'status',
  sorts: true,
  tones: { valid: 'good', deactivated: 'plain', revoked: 'bad' },
}

const COLUMNS: readonly Column<ListedAccount>[] = [
  {
    head: 'Account',
    kind: 'wide',
    by: ({ name }) => name,
    cell: ({ id, name }) => (
      <>
        <AccountLink id={id} name={name} /> <span class="quiet mono">{shortId(id)}</span>
      </>
    ),
  },
  STATUS,
  { head: 'Tags', member: 'tags', kind: 'tags' },
  { head: 'Contact', cell: ({ contacts }) => contactsText(contacts) ?? <span class="quiet">–</span> },
  {
    head: 'Certificates',
    kind: 'number',
    by: ({ certificates: { current } }) => current,
    cell: ({ id, certificates: { current, more } }) => (
      <a href={href('/certificates', { account_id: id, status: 'active' })}>
        {countText(current)}
        {more && '+'}
      </a>
    ),
  },
  { ...CLIENT, kind: 'wide' },
  LAST_SEEN,
  {
    head: 'Key identifier',
    by: ({ eab_kid }) => eab_kid,
    cell: ({ eab_kid }) => eab_kid ?? <span class="quiet">–</span>,
  },
  { head: 'Created', member: 'created_at', kind: 'instant' },
]

const contactsText = (contacts: readonly string[]): string | undefined =>
  contacts.map((contact) => contact.replace(/^mailto:/i, '')).join(', ') || undefined

export const AccountsPage = listPage('listAccounts', {
  title: 'Accounts',
  filters: ACCOUNT_FILTERS,
  columns: COLUMNS,
  csv: { name: 'accounts.csv', members: ACCOUNT_MEMBERS.file },
  empty: (
    <Empty
      title="No accounts yet"
      about="An account appears when a client registers. Create a credential, and copy a command from it."
    >
      <ButtonLink needs="listEabCredentials" to={href('/eab')} text="EAB credentials" />
    </Empty>
  ),
})

export function AccountPage({ params }: PageProps) {
  const id = params['account'] ?? ''
  const loaded = useApi('getAccount', { params: { account_id: id } })
  return (
    <LoadedPage
      loaded={loaded}
      title={(account) => `Account ${account?.name ?? id.slice(-12)}`}
      actions={(account) => <AccountActions account={account} reload={loaded.reload} />}
    >
      {(account) => (
        <>
          <Facts rows={factsOf(account, FACTS)} />
          <p>
            <a href={href('/certificates', { account_id: id })}>Certificates of this account</a>
          </p>
          <Failures id={id} />
          <Orders id={id} />
          <div class="columns">
            {can('listIdentifiersOfAccount') && <GrantedIdentifiers owner="account" id={id} />}
            <GrantedProfile owner="account" id={id} />
          </div>
        </>
      )}
    </LoadedPage>
  )
}

function AccountActions({
  account: { id, name, label, tags, status },
  reload,
}: {
  account: Account
  reload: () => void
}) {
  const params = { account_id: id }
  return (
    <>
      <Action
        needs="updateAccount"
        text="Name and tags"
        title="Name and tags"
        action="Save"
        fields={{
          label: { label: 'Name', value: label ?? '', help: 'Empty: its contact, or its key identifier.' },
          tags: {
            label: 'Tags',
            value: tags.join(' '),
            help: 'Lower-case words, with spaces between them. Registrars with one of these tags look after the account.',
          },
        }}
        onConfirm={(typed) => {
          const body = { label: typed.label.trim() || null, tags: tagsOf(typed.tags) }
          return call('updateAccount', { params, body })
        }}
        onDone={reload}
      />
      {status === 'valid' && (
        <Action
          needs="deactivateAccount"
          kind="danger"
          action="Deactivate"
          title={`Deactivate ${name}`}
          consequence="The client can no longer order, renew or revoke with this account. It cannot be undone. Its certificates stay valid."
          typed={id.slice(-12)}
          onConfirm={() => call('deactivateAccount', { params })}
          done="The account is deactivated."
          onDone={reload}
        />
      )}
    </>
  )
}

const FACTS: readonly Column<Account>[] = [
  { head: 'Name', member: 'name' },
  { head: 'Tags', cell: ({ tags }) => tags.length > 0 && <Tags tags={tags} /> },
  STATUS,
  { head: 'Id', member: 'id', kind: 'copy' },
  { head: 'Contacts', cell: ({ contacts }) => contacts.join(', ') || 'none' },
  { head: 'Key thumbprint', member: 'jwk_thumbprint', kind: 'copy' },
  { head: 'Key identifier', cell: ({ eab_kid }) => eab_kid ?? 'none' },
  { head: 'Agreed to the terms', cell: ({ tos_agreed }) => (tos_agreed ? 'yes' : 'no') },
  CLIENT,
  LAST_SEEN,
  { head: 'Created', member: 'created_at', kind: 'time' },
  { head: 'Changed', member: 'updated_at', kind: 'time' },
]

function Failures({ id }: { id: string }) {
  const loaded = useApi('listFailuresOfAccount', { params: { account_id: id } })
  return (
    <Section title="Recent failures">
      <Ready loaded={loaded}>
        {(failures) =>
          failures.length === 0 ? (
            <Empty
              title="No failures within 30 days"
              about="Refused orders, requests and validations appear here within a second."
            />
          ) : (
            <>
              <FailureList failures={failures.slice(0, NEWEST)} />
              {failures.length > NEWEST && (
                <details>
                  <summary>{countText(failures.length - NEWEST)} older</summary>
                  <FailureList failures={failures.slice(NEWEST)} />
                </details>
              )}
            </>
          )
        }
      </Ready>
    </Section>
  )
}

/** The newest say what is wrong now. */
const NEWEST = 10

function Orders({ id }: { id: string }) {
  const list = useList('listOrders', { query: { account_id: id } } as Input<'listOrders'>)
  return (
    <Section title="Orders">
      <List caption="Orders" list={list} columns={ORDER_COLUMNS} empty={<Empty title="No orders of this account" />} />
    </Section>
  )
}
