/** An incident in one page: what is reported, what it hits, and what is to be done about it. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { AccountLink, Badge, Copyable, Empty, Facts, Problem, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { CheckField, TextField, useSubmit } from '../components/form.tsx'
import { List } from '../components/list.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { mayBePrivate, publicKeyHash } from '../public-key.ts'
import { href, type PageProps } from '../router.ts'
import { useList } from '../use-list.ts'
import { WHO_COLUMNS } from './incident.tsx'
import { Plan } from './incident-plan.tsx'
import { type Examination, filterText } from './incident-words.ts'

const KEPT = 'That was a private key. It stays in this browser; only the SHA-256 of its public key is sent.'

export function IncidentsPage({ query, entry }: PageProps) {
  const [text, setText] = useState(query['text'] ?? '')
  const [below, setBelow] = useState(false)
  const [derived, setDerived] = useState<string>()
  const [refusal, setRefusal] = useState<string>()
  const [found, setFound] = useState<Examination>()
  const { submit, error, isBusy } = useSubmit(async () =>
    setFound(await call('examineIncident', { body: { text, below } })),
  )
  const change = async (typed: string) => {
    setFound(undefined)
    if (typed !== '') setRefusal(undefined)
    if (!mayBePrivate(typed)) return setText(typed)
    // Never in the field's state: what is sent is read from there.
    setText('')
    await publicKeyHash(typed).then(
      (hash) => {
        setText(hash)
        setDerived(hash)
      },
      (cause: Error) => setRefusal(cause.message),
    )
  }
  const said = text === '' ? refusal : text === derived && KEPT
  return (
    <Page title="Incident">
      <form onSubmit={submit}>
        <h2>1. What is affected?</h2>
        <TextField
          label="Key, certificate, CSR, account, kid or name"
          help="PEM, JWK, SHA-256 of a public key, id or URL of an account, kid, or host name. A private key never leaves the browser."
          rows={5}
          value={text}
          onChange={change}
        />
        <CheckField label="For a name: all names below it, too" checked={below} onChange={setBelow} />
        <p role="status">{said}</p>
        <Problem error={error} />
        <div class="actions left">
          <button type="submit" class="primary" disabled={isBusy || text.trim() === ''}>
            {isBusy ? 'Examining …' : 'Examine'}
          </button>
        </div>
      </form>
      {found && <Found found={found} />}
      {found && can('beginIncident') && <Plan key={JSON.stringify(found.filter)} found={found} />}
      <Section title="Incidents so far">
        <PastIncidents entry={entry} />
      </Section>
    </Page>
  )
}

/** The account that has the key: it can order with these authorizations, and a block ends it. */
const KeyAccount = ({ account }: { account: NonNullable<Examination['key_account']> }) => (
  <>
    <AccountLink id={account.account_id} name={account.account_name} /> {account.status}:{' '}
    {plural(countText(account.authorizations), 'valid authorization')},{' '}
    {plural(countText(account.certificates), 'certificate')}
  </>
)

const OWNER_COLUMNS: readonly Column<Examination['owners'][number]>[] = [
  ...WHO_COLUMNS,
  { head: 'Tags', cell: ({ tags }) => tags.join(', ') },
  { head: 'Certificates', kind: 'number', cell: ({ certificates }) => countText(certificates) },
  { head: 'Already revoked', kind: 'number', cell: ({ already_revoked }) => countText(already_revoked) },
  { head: 'Names, the first', kind: 'wide', cell: ({ names }) => names.join(', ') },
]

function Found({ found }: { found: Examination }) {
  const { certificates, already_revoked, key_blocked, key_account, owners, owners_total, owners_cut } = found
  return (
    <section class="section" aria-live="polite">
      <h2>2. What it hits</h2>
      <Facts
        rows={[
          ['Read as', found.read_as],
          ['Selects', <Copyable key="filter" text={filterText(found.filter)} />],
          ['Certificates', `${plural(countText(certificates), 'is', 'are')} unexpired and not revoked`],
          ['Already revoked', countText(already_revoked)],
          [
            'Key',
            key_blocked !== null && (
              <Badge key="key" tone={key_blocked ? 'good' : 'warn'}>
                {key_blocked ? 'blocked' : 'not blocked'}
              </Badge>
            ),
          ],
          ['Account with this key', key_account && <KeyAccount key="account" account={key_account} />],
          ['Owners', owners_cut ? `more than ${countText(owners_total)}` : countText(owners_total)],
        ]}
      />
      <Table
        caption="Owners"
        rows={owners}
        rowKey={({ account_id }) => account_id ?? ''}
        columns={OWNER_COLUMNS}
        empty={<Empty title="No certificates" />}
      />
      {owners.length < owners_total && (
        <p class="quiet">The {countText(owners.length)} with the most certificates are shown.</p>
      )}
    </section>
  )
}

const PAST_COLUMNS: readonly Column<Output<'listIncidents'>[number]>[] = [
  {
    head: 'Begun',
    kind: 'fixed',
    cell: ({ id, created_at }) => (
      <a href={href(`/incident/${id}`)}>
        <Time at={created_at} relative={false} />
      </a>
    ),
  },
  { head: 'By', cell: ({ created_by }) => created_by },
  { head: 'Selected', kind: 'wide', cell: ({ filter }) => filterText(filter) },
  { head: 'Certificates', kind: 'number', cell: ({ certificates }) => countText(certificates) },
]

function PastIncidents({ entry }: { entry: number }) {
  const list = useList('listIncidents', {}, entry)
  return (
    <List caption="Incidents so far" list={list} columns={PAST_COLUMNS} empty={<Empty title="No incidents yet" />} />
  )
}
