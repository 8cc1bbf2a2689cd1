/** ACME accounts: the list, and one with its failures, its orders, and what it may request. */

import { call, can, type Input, type Output } from '../api.ts'
import { Client, LAST_SEEN, LastSeen } from '../components/activity.tsx'
import {
  AccountLink,
  Badge,
  ButtonLink,
  Copyable,
  Empty,
  Facts,
  Ready,
  Tags,
  Time,
  type Tone,
} from '../components/basics.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { type Filter, TextField, useForm } from '../components/form.tsx'
import { List, ListPage } from '../components/list.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { tagsOf } from '../components/role-fields.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { countText } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { withWholeDays } from '../time-zone.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'
import { shortId } from './certificates.tsx'
import { FailureList } from './failures.tsx'
import { GrantedIdentifiers, GrantedProfile } from './grants.tsx'
import { ORDER_COLUMNS } from './orders.tsx'

type ListedAccount = Output<'listAccounts'>[number]

const TONES: Readonly<Record<ListedAccount['status'], Tone>> = { valid: 'good', deactivated: 'plain', revoked: 'bad' }
const AccountStatus = ({ status }: Pick<ListedAccount, 'status'>) => <Badge tone={TONES[status]}>{status}</Badge>

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
  { head: 'Status', by: ({ status }) => status, cell: (account) => <AccountStatus {...account} /> },
  { head: 'Tags', cell: ({ tags }) => <Tags tags={tags} /> },
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
  { head: 'Client', kind: 'wide', by: ({ client }) => client, cell: (account) => <Client {...account} /> },
  LAST_SEEN,
  {
    head: 'Key identifier',
    by: ({ eab_kid }) => eab_kid,
    cell: ({ eab_kid }) => eab_kid ?? <span class="quiet">–</span>,
  },
  timeColumn('Created', 'created_at', { relative: false }),
]

const CSV: CsvFile<ListedAccount> = {
  name: 'accounts.csv',
  members: [
    'id',
    'name',
    'label',
    'tags',
    'contacts',
    'status',
    'eab_kid',
    'jwk_thumbprint',
    'tos_agreed',
    'client',
    'last_seen_at',
    'created_at',
    'updated_at',
  ],
}

const contactsText = (contacts: readonly string[]): string | undefined =>
  contacts.map((contact) => contact.replace(/^mailto:/i, '')).join(', ') || undefined

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: (['valid', 'deactivated', 'revoked'] as const).map((status) => [status, status] as const),
  },
  { name: 'name', label: 'Name or contact' },
  { name: 'tag', label: 'Tag' },
  { name: 'eab_kid', label: 'Key identifier' },
  { name: 'created_after', label: 'Created from', type: 'date' },
]

export function AccountsPage({ query, entry }: PageProps) {
  const list = useList('listAccounts', { query: withWholeDays(query) } as Input<'listAccounts'>, entry)
  return (
    <ListPage
      title="Accounts"
      query={query}
      filters={FILTERS}
      list={list}
      columns={COLUMNS}
      csv={CSV}
      empty={
        <Empty title="No accounts yet">
          <p>An account appears when a client registers. Create a credential, and copy a command from it.</p>
          <ButtonLink needs="listEabCredentials" to={href('/eab')}>
            EAB credentials
          </ButtonLink>
        </Empty>
      }
    />
  )
}

type Account = Output<'getAccount'>

export function AccountPage({ params }: PageProps) {
  const id = params['account'] ?? ''
  const loaded = useApi('getAccount', { params: { account_id: id } })
  const { data } = loaded
  return (
    <Page
      title={`Account ${data?.name ?? id.slice(-12)}`}
      actions={
        data && (
          <>
            <NameAccount key={data.name + data.tags} account={data} onNamed={loaded.reload} />
            {data.status === 'valid' && <Deactivate id={id} name={data.name} onDone={loaded.reload} />}
          </>
        )
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
    </Page>
  )
}

function Deactivate({ id, name, onDone }: { id: string; name: string; onDone: () => void }) {
  return (
    <Action
      needs="deactivateAccount"
      kind="danger"
      action="Deactivate"
      title={`Deactivate ${name}`}
      consequence={
        <p>
          The client can no longer order, renew or revoke with this account. It cannot be undone. Its certificates stay
          valid.
        </p>
      }
      typed={id.slice(-12)}
      onConfirm={async () => {
        await call('deactivateAccount', { params: { account_id: id } })
        tell('The account is deactivated.')
        onDone()
      }}
    />
  )
}

function NameAccount({ account, onNamed }: { account: Account; onNamed: () => void }) {
  const { values, field, reset } = useForm({ label: account.label ?? '', tags: account.tags.join(' ') })
  return (
    <Action
      needs="updateAccount"
      text="Name and tags"
      title="Name and tags"
      action="Save"
      onOpen={reset}
      onConfirm={async () => {
        const body = { label: values.label.trim() || null, tags: tagsOf(values.tags) }
        await call('updateAccount', { params: { account_id: account.id }, body })
        onNamed()
      }}
    >
      {(error) => (
        <>
          <TextField label="Name" help="Empty: its contact, or its key identifier." {...field('label', error)} />
          <TextField
            label="Tags"
            help="Lower-case words, with spaces between them. Registrars with one of these tags look after the account."
            {...field('tags', error)}
          />
        </>
      )}
    </Action>
  )
}

const AccountFacts = ({ account }: { account: Account }) => (
  <>
    <Facts
      rows={[
        ['Name', account.name],
        ['Tags', account.tags.length > 0 && <Tags key="tags" tags={account.tags} />],
        ['Status', <AccountStatus key="status" {...account} />],
        ['Id', <Copyable key="id" text={account.id} />],
        ['Contacts', account.contacts.join(', ') || 'none'],
        ['Key thumbprint', <Copyable key="thumbprint" text={account.jwk_thumbprint} />],
        ['Key identifier', account.eab_kid ?? 'none'],
        ['Agreed to the terms', account.tos_agreed ? 'yes' : 'no'],
        ['Client', <Client key="client" {...account} />],
        ['Last seen', <LastSeen key="seen" {...account} />],
        ['Created', <Time key="created" at={account.created_at} />],
        ['Changed', <Time key="changed" at={account.updated_at} />],
      ]}
    />
    <p>
      <a href={href('/certificates', { account_id: account.id })}>Certificates of this account</a>
    </p>
  </>
)

function Failures({ id }: { id: string }) {
  const loaded = useApi('listFailuresOfAccount', { params: { account_id: id } })
  return (
    <Section title="Recent failures">
      <Ready loaded={loaded}>
        {(failures) =>
          failures.length === 0 ? (
            <Empty title="No failures within 30 days">
              <p>Refused orders, requests and validations appear here within a second.</p>
            </Empty>
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
