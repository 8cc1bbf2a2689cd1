/** The audit log: who did what, whether its chain is whole, and its export. */

import { AUDIT_FILTERS } from '../../admin/resources/operation.ts'
import { actionText } from '../../domain/action-words.ts'
import { call, type Input, lines, type OperationId, type Output } from '../api.ts'
import { Badge, Copyable, Empty, LinkTo, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { Ranges, type ShownFilters } from '../components/filters.tsx'
import { WorkButton } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { counted, countText } from '../format.ts'
import { withWholeDays } from '../preferences.ts'
import { href, type PageProps } from '../router.ts'
import { useApi, useList } from '../use-api.ts'

type Entry = Output<'listAuditLog'>[number]
type User = Output<'listUsers'>[number]

/** A user who is gone keeps the id. */
function columnsOf(users: readonly User[]): Column<Entry>[] {
  const names = new Map(users.map(({ id, username }) => [id, username]))
  const nameOf = (id: string | null, details: Entry['details']) =>
    id === null ? String(details['operator'] ?? 'command line') : (names.get(id) ?? id)
  return [
    { head: 'Time', member: 'created_at', kind: 'instant' },
    { head: 'User', kind: 'fixed', cell: ({ user_id, details }) => nameOf(user_id, details) },
    { head: 'Action', kind: 'word', cell: ({ action }) => <span title={action}>{actionText(action)}</span> },
    {
      head: 'Details',
      kind: 'wide',
      cell: ({ target_user_id, details }) => (
        <>
          {target_user_id !== null && <strong>{names.get(target_user_id) ?? target_user_id}</strong>}
          <Details details={details} />
        </>
      ),
    },
    { head: 'Address', member: 'ip_address', kind: 'fixed' },
    { head: 'Entry', member: 'sequence', kind: 'number' },
  ]
}

/** `src/dev/build-console.mjs` takes them from `src/domain/audit-chain.ts`. */
declare const ACTIONS_OF_BUILD: readonly string[]

/** The actions for a choice, in the order of their words. */
const actionOptions = (): (readonly [value: string, text: string])[] =>
  ACTIONS_OF_BUILD.map((action) => [action, actionText(action)] as const).sort(([, a], [, b]) => (a < b ? -1 : 1))

type Details = Readonly<Record<string, unknown>>

/** Members that name an object with a page of its own, and the operation of that page. */
const PAGES: Readonly<Record<string, readonly [needs: OperationId, place: (id: string) => string]>> = {
  eab_id: ['getEabCredential', (id) => href(`/eab/${id}`)],
  account_id: ['getAccount', (id) => href(`/accounts/${id}`)],
  serial_number: ['getCertificate', (id) => href(`/certificates/${id}`)],
  job_id: ['getBulkRevocation', (id) => href(`/bulk-revocations/${id}`)],
  csr_profile_id: ['getCsrProfile', (id) => href(`/csr-profiles/${id}`)],
  spki_sha256: ['listCertificates', (id) => href('/certificates', { spki_sha256: id })],
  order_id: ['getOrder', (id) => href(`/orders/${id}`)],
}

interface Fact {
  name: string
  text: string
  /** The object's page, and the operation that it needs. */
  page?: { needs: OperationId; to: string }
}

interface Change {
  before: unknown
  after: unknown
}

const isChange = (value: unknown): value is Change =>
  typeof value === 'object' && value !== null && 'before' in value && 'after' in value

const textOf = (value: unknown): string =>
  value === null || value === undefined
    ? 'none'
    : typeof value === 'string'
      ? value
      : Array.isArray(value)
        ? value.map(textOf).join(', ')
        : JSON.stringify(value)

/** `role: auditor → admin` for a change, with a link where the member names an object. */
function wordsOf(details: Details): Fact[] {
  return Object.entries(details)
    .filter(([name]) => name !== 'operator')
    .map(([name, value]) => {
      const text = isChange(value) ? `${textOf(value.before)} → ${textOf(value.after)}` : textOf(value)
      const [needs, place] = PAGES[name] ?? []
      const page = needs && place && typeof value === 'string' ? { needs, to: place(value) } : undefined
      return { name: name.replaceAll('_', ' '), text, ...(page && { page }) }
    })
}

export const Details = ({ details }: Pick<Entry, 'details'>) => (
  <ul class="details">
    {wordsOf(details).map(({ name, text, page }) => (
      <li key={name}>
        <span class="quiet">{name}:</span> {page ? <LinkTo {...page}>{text}</LinkTo> : text}
      </li>
    ))}
  </ul>
)

/** The actions and the users are choices here, where all of them are known. */
const filtersOf = (users: readonly User[]): ShownFilters => ({
  ...AUDIT_FILTERS,
  action: { ...AUDIT_FILTERS.action, kind: Object.fromEntries(actionOptions()) },
  user_id: { ...AUDIT_FILTERS.user_id, kind: Object.fromEntries(users.map(({ id, username }) => [id, username])) },
})

export function AuditPage({ query, entry }: PageProps) {
  const users = useApi('listUsers', {})
  const filters = withWholeDays(query)
  const list = useList('listAuditLog', { query: filters } as Input<'listAuditLog'>, entry)
  return (
    <ListPage
      title="Audit log"
      actions={
        <WorkButton
          needs="exportAuditLog"
          text="Save all as NDJSON"
          busyText="Reading …"
          work={() => exportAll(filters)}
        />
      }
      query={query}
      filters={filtersOf(users.data ?? [])}
      list={list}
      columns={columnsOf(users.data ?? [])}
      empty={<Empty title="No matches" />}
    >
      <Chain />
      <Ranges query={query} />
    </ListPage>
  )
}

async function exportAll(filters: object): Promise<void> {
  const all: string[] = []
  for await (const line of lines('exportAuditLog', { body: filters } as Input<'exportAuditLog'>)) all.push(line)
  saveFile('audit-log.ndjson', 'application/x-ndjson', `${all.join('\n')}\n`)
}

type Verification = Output<'listAuditVerifications'>[number]

/** The last check of the chain, which another administrator may have begun, and the button for a new one. */
function Chain() {
  const loaded = useApi('listAuditVerifications', {}, { every: 1_000, until: ([last]) => last?.status !== 'running' })
  const last = loaded.data?.[0]
  const isRunning = last?.status === 'running'
  return (
    <section class="bar" aria-label="Audit log chain">
      <Ready loaded={loaded}>
        {() => (
          <div role="status">
            {last ? <Check {...last} /> : 'Each entry is chained to the one before. Checking reads the whole log.'}
          </div>
        )}
      </Ready>
      <WorkButton
        text={isRunning ? 'Checking …' : 'Check the chain'}
        busyText="Checking …"
        disabled={isRunning}
        work={() => call('beginAuditVerification', { body: {} }).then(loaded.reload)}
      />
    </section>
  )
}

function Check({ status, checked, total, whole, entries, head, cut_sequence: cut, ...others }: Verification) {
  if (status === 'running')
    return (
      <>
        {countText(checked)} of {countText(total)} entries checked
      </>
    )
  const at = <Time at={others.finished_at ?? others.created_at} />
  if (status === 'failed')
    return (
      <>
        The last check did not finish: {others.failure} ({at})
      </>
    )
  return (
    <>
      <Badge tone={whole ? 'good' : 'bad'}>{whole ? 'intact' : 'BROKEN'}</Badge>{' '}
      {counted(entries ?? 0, 'entry', 'entries')}
      {whole && `, verified up to entry ${countText(Number(head?.split(':')[0] ?? 0))}`}, head{' '}
      {cut !== null && cut > 0 && `cut by retention at ${countText(cut)}, `} <Copyable text={head ?? ''} /> ({at})
      <ul>
        {[...others.faults, ...(others.written_back?.spans ?? [])].map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </>
  )
}
