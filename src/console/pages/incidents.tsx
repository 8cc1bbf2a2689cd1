/** An incident in one page: what is reported, what it hits, what is to be done about it, and the incidents so far. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { AccountLink, Badge, Copyable, Empty, Facts, LongText, Problem } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { CheckField, SelectField, TextField, useSubmit, WorkButton } from '../components/form.tsx'
import { List } from '../components/list.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { counted, countText } from '../format.ts'
import { KEY_COMPROMISE, REVOCATION_REASONS } from '../labels.ts'
import { mayBePrivate, publicKeyHash } from '../public-key.ts'
import { go, href, type PageProps } from '../router.ts'
import { useList } from '../use-api.ts'
import { filterText, WHO_COLUMNS } from './incident.tsx'

type Examination = Output<'examineIncident'>

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
          help="PEM, JWK, SHA-256 of a public key, id or URL of an account, kid, type of key such as RSA-below-3072, or host name. A private key never leaves the browser."
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
    {counted(account.authorizations, 'valid authorization')}, {counted(account.certificates, 'certificate')}
  </>
)

const OWNER_COLUMNS: readonly Column<Examination['owners'][number]>[] = [
  ...WHO_COLUMNS,
  { head: 'Tags', cell: ({ tags }) => tags.join(', ') },
  { head: 'Certificates', member: 'certificates', kind: 'number' },
  { head: 'Already revoked', member: 'already_revoked', kind: 'number' },
  { head: 'Names, the first', member: 'names', kind: 'names' },
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
          ['Certificates', `${counted(certificates, 'is', 'are')} unexpired and not revoked`],
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
  { head: 'Begun', member: 'created_at', kind: 'instant', to: ({ id }) => href(`/incident/${id}`) },
  { head: 'By', member: 'created_by' },
  { head: 'Selected', kind: 'wide', cell: ({ filter }) => filterText(filter) },
  { head: 'Certificates', member: 'certificates', kind: 'number' },
]

function PastIncidents({ entry }: { entry: number }) {
  const list = useList('listIncidents', {}, entry)
  return (
    <List caption="Incidents so far" list={list} columns={PAST_COLUMNS} empty={<Empty title="No incidents yet" />} />
  )
}

interface Choices {
  revoke: boolean
  reason: string
  block: boolean
  advise: boolean
  tell: boolean
  remark: string
}

function Plan({ found }: { found: Examination }) {
  const { filter, certificates: count, key_blocked } = found
  const isKey = filter['spki_sha256'] !== undefined
  const [chosen, setChosen] = useState<Choices>({
    revoke: count > 0,
    reason: isKey ? KEY_COMPROMISE : '0',
    block: key_blocked === false,
    advise: false,
    tell: false,
    remark: '',
  })
  const choose = (changed: Partial<Choices>) => setChosen({ ...chosen, ...changed })
  const certificates = counted(count, 'certificate')
  const acts = [
    chosen.revoke && `${certificates} will be revoked. This cannot be undone.`,
    chosen.block && 'The key will be blocked: it is never certified again, and an account that has it is revoked.',
    chosen.advise && `Renewal information of ${certificates} will say: renew now.`,
    chosen.tell && 'The owners will get a mail.',
  ].filter((act) => act !== false)
  return (
    <Section title="3. What to do">
      <Fields found={found} chosen={chosen} choose={choose} />
      {acts.length > 0 && (
        <Action
          needs="beginIncident"
          kind="danger"
          text="Begin …"
          action="Begin"
          title="Begin the incident"
          {...(count > 0 && { typed: String(count) })}
          consequence={
            <ul>
              {acts.map((act) => (
                <li key={act}>{act}</li>
              ))}
            </ul>
          }
          onConfirm={() => begin(found, chosen)}
        />
      )}
    </Section>
  )
}

interface FieldsProps {
  found: Examination
  chosen: Choices
  choose: (changed: Partial<Choices>) => void
}

function Fields({ found: { filter, certificates: count, key_blocked }, chosen, choose }: FieldsProps) {
  return (
    <>
      {count > 0 && (
        <CheckField
          label={`Revoke ${counted(count, 'certificate')}`}
          checked={chosen.revoke}
          onChange={(revoke) => choose({ revoke })}
        />
      )}
      {chosen.revoke && (
        <div class="narrow">
          <SelectField
            label="Reason"
            value={chosen.reason}
            onChange={(reason) => choose({ reason })}
            options={Object.entries(REVOCATION_REASONS)}
          />
        </div>
      )}
      {key_blocked === false && (
        <CheckField label="Block the key" checked={chosen.block} onChange={(block) => choose({ block })} />
      )}
      {count > 0 && (
        <>
          <CheckField
            label="Advise renewal: clients that ask for renewal information renew now"
            checked={chosen.advise}
            onChange={(advise) => choose({ advise })}
          />
          <CheckField label="Tell the owners by mail" checked={chosen.tell} onChange={(tell) => choose({ tell })} />
        </>
      )}
      {chosen.tell && (
        <>
          <TextField
            label="A sentence for the owners"
            value={chosen.remark}
            onChange={(remark) => choose({ remark })}
          />
          <MailPreview filter={filter} chosen={chosen} key={JSON.stringify(chosen)} />
        </>
      )}
    </>
  )
}

async function begin({ filter, certificates }: Examination, chosen: Choices): Promise<void> {
  const { id } = await call('beginIncident', {
    body: {
      filter,
      revoke: chosen.revoke,
      reason: Number(chosen.reason),
      block_key: chosen.block,
      advise_renewal: chosen.advise,
      tell_owners: chosen.tell,
      confirm_count: certificates,
      ...(chosen.remark.trim() !== '' && { remark: chosen.remark }),
    },
  })
  go(`/incident/${id}`)
}

function MailPreview({ filter, chosen }: { filter: Examination['filter']; chosen: Choices }) {
  const [mail, setMail] = useState<Output<'previewIncidentMail'>>()
  const preview = async () => {
    const { revoke, reason, remark } = chosen
    const body = { filter, revoke, reason: Number(reason), ...(remark.trim() !== '' && { remark }) }
    setMail(await call('previewIncidentMail', { body }))
  }
  return (
    <div aria-live="polite">
      <WorkButton kind="small" text="Preview mail" work={preview} />
      {mail && (
        <>
          <p>
            {counted(mail.mails, 'mail')} to {counted(mail.accounts, 'account')}; {countText(mail.without_contact)}{' '}
            without a contact cannot be written to.
            {!mail.enabled && ' Mail is off (smtp.enabled, notifications.enabled): nobody can be told.'}
          </p>
          {mail.text !== null && (
            <>
              <p>
                <strong>{mail.subject}</strong>
              </p>
              <LongText>{mail.text}</LongText>
            </>
          )}
        </>
      )}
    </div>
  )
}
