/** The audit log: who did what, whether its chain is whole, and its export. */

import { useState } from 'preact/hooks'
import { call, type Input, lines, type Output, useApi, useList } from '../api.ts'
import { Allowed, Badge, Copyable, Empty, Problem, Ready, Time } from '../components/basics.tsx'
import { type Filter, FilterBar } from '../components/filter-bar.tsx'
import { useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { withWholeDays } from '../days.ts'
import { countText, saveFile } from '../format.ts'
import type { PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Entry = Output<'listAuditLog'>[number]
type User = Output<'listUsers'>[number]

/** A user who is gone keeps the id. */
function columnsOf(users: readonly User[]): Column<Entry>[] {
  const names = new Map(users.map(({ id, username }) => [id, username]))
  const nameOf = (id: string | null, details: Entry['details']) =>
    id === null ? String(details['operator'] ?? WORDS.audit.commandLine) : (names.get(id) ?? id)
  return [
    { head: WORDS.audit.at, kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} relative={false} /> },
    { head: WORDS.audit.user, kind: 'fixed', cell: ({ user_id, details }) => nameOf(user_id, details) },
    { head: WORDS.audit.action, kind: 'fixed', cell: ({ action }) => <code>{action}</code> },
    {
      head: WORDS.audit.target,
      kind: 'wide',
      cell: ({ target_user_id, details }) => (
        <>
          {target_user_id !== null && <strong>{names.get(target_user_id) ?? target_user_id} </strong>}
          <span class="mono">{detailsText(details)}</span>
        </>
      ),
    },
    { head: WORDS.audit.address, kind: 'fixed', cell: ({ ip_address }) => ip_address },
  ]
}

const detailsText = (details: Entry['details']): string =>
  Object.entries(details)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')

const filtersOf = (users: readonly User[]): Filter[] => [
  { name: 'action', label: WORDS.audit.action, placeholder: 'eab.create' },
  { name: 'user_id', label: WORDS.audit.user, options: users.map(({ id, username }) => [id, username] as const) },
  { name: 'ip_address', label: WORDS.audit.address },
  { name: 'since', label: WORDS.audit.since, type: 'date' },
  { name: 'until', label: WORDS.audit.until, type: 'date' },
]

export function AuditPage({ query, entry }: PageProps) {
  const users = useApi('listUsers', {})
  const list = useList('listAuditLog', { query: withWholeDays(query) } as Input<'listAuditLog'>, entry)
  const { submit, error, isBusy } = useSubmit(() => exportAll(withWholeDays(query)))
  return (
    <Page
      title={WORDS.pages.audit}
      actions={
        <Allowed to="exportAuditLog">
          <button type="button" disabled={isBusy} onClick={() => submit()}>
            {isBusy ? WORDS.audit.exporting : WORDS.audit.export}
          </button>
        </Allowed>
      }
    >
      <Problem error={error} />
      <Chain />
      <FilterBar query={query} filters={filtersOf(users.data ?? [])} />
      <List
        caption={WORDS.pages.audit}
        list={list}
        columns={columnsOf(users.data ?? [])}
        rowKey={({ id }) => id}
        empty={<Empty title={WORDS.table.noMatch} />}
      />
    </Page>
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
    <section class="bar" aria-label={WORDS.audit.chain}>
      <Ready loaded={loaded}>
        {() => <div role="status">{last ? <Check {...last} /> : WORDS.audit.chainHelp}</div>}
      </Ready>
      <Problem error={error} />
      <button type="button" disabled={isBusy || isRunning} onClick={() => submit()}>
        {isBusy || isRunning ? WORDS.audit.checking : WORDS.audit.check}
      </button>
    </section>
  )
}

function Check({ status, checked, total, whole, entries, head, cut_sequence: cut, ...others }: Verification) {
  if (status === 'running') return <>{WORDS.audit.progress(countText(checked), countText(total))}</>
  const at = <Time at={others.finished_at ?? others.created_at} />
  if (status === 'failed')
    return (
      <>
        {WORDS.audit.failed} {others.failure} ({at})
      </>
    )
  return (
    <>
      <Badge tone={whole ? 'good' : 'bad'}>{whole ? WORDS.audit.whole : WORDS.audit.broken}</Badge>{' '}
      {WORDS.audit.entries(countText(entries ?? 0))} {cut !== null && cut > 0 && WORDS.audit.cut(countText(cut))}{' '}
      <Copyable text={head ?? ''} /> ({at})
      <ul>
        {others.faults.map((fault) => (
          <li key={fault}>{fault}</li>
        ))}
      </ul>
    </>
  )
}
