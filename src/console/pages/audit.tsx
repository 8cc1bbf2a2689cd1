/** The audit log: who did what, whether its chain is whole, and its export. */

import { useState } from 'preact/hooks'
import { actionText } from '../../domain/action-words.ts'
import { call, type Input, lines, type Output } from '../api.ts'
import { Allowed, Badge, Copyable, Empty, LinkTo, Problem, Ready, Time } from '../components/basics.tsx'
import { saveFile } from '../components/csv.tsx'
import { type Filter, Ranges, useSubmit } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import type { PageProps } from '../router.ts'
import { withWholeDays } from '../time-zone.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'
import { actionOptions, factsOf } from './audit-words.ts'

type Entry = Output<'listAuditLog'>[number]
type User = Output<'listUsers'>[number]

/** A user who is gone keeps the id. */
function columnsOf(users: readonly User[]): Column<Entry>[] {
  const names = new Map(users.map(({ id, username }) => [id, username]))
  const nameOf = (id: string | null, details: Entry['details']) =>
    id === null ? String(details['operator'] ?? 'command line') : (names.get(id) ?? id)
  return [
    timeColumn('Time', 'created_at', { relative: false }),
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
    { head: 'Address', kind: 'fixed', cell: ({ ip_address }) => ip_address },
    { head: 'Entry', kind: 'number', cell: ({ sequence }) => countText(sequence) },
  ]
}

export const Details = ({ details }: Pick<Entry, 'details'>) => (
  <ul class="details">
    {factsOf(details).map(({ name, text, page }) => (
      <li key={name}>
        <span class="quiet">{name}:</span> {page ? <LinkTo {...page}>{text}</LinkTo> : text}
      </li>
    ))}
  </ul>
)

const filtersOf = (users: readonly User[]): Filter[] => [
  { name: 'action', label: 'Action', options: actionOptions() },
  { name: 'user_id', label: 'User', options: users.map(({ id, username }) => [id, username] as const) },
  { name: 'object', label: 'Object', placeholder: 'an id, name, serial number' },
  { name: 'ip_address', label: 'Address' },
  { name: 'since', label: 'Since', type: 'date' },
  { name: 'until', label: 'Until', type: 'date' },
]

export function AuditPage({ query, entry }: PageProps) {
  const users = useApi('listUsers', {})
  const list = useList('listAuditLog', { query: withWholeDays(query) } as Input<'listAuditLog'>, entry)
  const { submit, error, isBusy } = useSubmit(() => exportAll(withWholeDays(query)))
  return (
    <ListPage
      title="Audit log"
      actions={
        <Allowed to="exportAuditLog">
          <button type="button" disabled={isBusy} onClick={() => submit()}>
            {isBusy ? 'Reading …' : 'Save all as NDJSON'}
          </button>
        </Allowed>
      }
      query={query}
      filters={filtersOf(users.data ?? [])}
      list={list}
      columns={columnsOf(users.data ?? [])}
      empty={<Empty title="No matches" />}
    >
      <Problem error={error} />
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
  const [isRunning, setRunning] = useState(false)
  const loaded = useApi('listAuditVerifications', {}, isRunning ? { every: 1_000 } : {})
  const last = loaded.data?.[0]
  const { submit, error, isBusy } = useSubmit(async () => {
    await call('beginAuditVerification', { body: {} })
    loaded.reload()
  })
  if (last && (last.status === 'running') !== isRunning) setRunning(!isRunning)
  return (
    <section class="bar" aria-label="Audit log chain">
      <Ready loaded={loaded}>
        {() => (
          <div role="status">
            {last ? <Check {...last} /> : 'Each entry is chained to the one before. Checking reads the whole log.'}
          </div>
        )}
      </Ready>
      <Problem error={error} />
      <button type="button" disabled={isBusy || isRunning} onClick={() => submit()}>
        {isBusy || isRunning ? 'Checking …' : 'Check the chain'}
      </button>
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
      {plural(countText(entries ?? 0), 'entry', 'entries')}
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
