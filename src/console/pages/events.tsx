/** Events: what happened in the last day, what waits for its consumers, and what could not be delivered. */

import { useState } from 'preact/hooks'
import { call, can, type Input, type Output } from '../api.ts'
import { Badge, Button, Copyable, Empty, Facts, Freshness, Ready } from '../components/basics.tsx'
import { type Column, factsOf } from '../components/columns.tsx'
import { Action, CloseButton, Dialog } from '../components/dialog.tsx'
import { List } from '../components/list.tsx'
import { LoadedTable } from '../components/loaded.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { counted, countText, spanText } from '../format.ts'
import type { PageProps } from '../router.ts'
import { useApi, useList } from '../use-api.ts'

type Letter = Output<'listDeadLetters'>[number]
const POLL_MS = 10_000

const CONSUMERS: readonly Column<Output<'getWorkers'>['consumers'][number]>[] = [
  { head: 'Consumer', member: 'name', kind: 'wide' },
  {
    head: 'Waiting',
    kind: 'number',
    cell: ({ waiting, more }) => (more ? `${countText(waiting)}+` : countText(waiting)),
  },
  {
    head: 'Oldest',
    cell: ({ waiting, behind, oldest_seconds: seconds }) =>
      waiting === 0 ? (
        <span class="quiet">–</span>
      ) : (
        <Badge tone={behind ? 'warn' : 'good'}>{spanText(seconds) ?? 'now'}</Badge>
      ),
  },
]

export function EventsPage({ entry }: PageProps) {
  const workers = useApi('getWorkers', {}, { every: POLL_MS })
  const counts = useApi('getEventCounts', { query: { hours: '24' } })
  return (
    <Page title="Events" actions={<Freshness loaded={workers} />}>
      <LoadedTable
        caption="Consumers"
        loaded={workers}
        rows={({ consumers }) => consumers}
        rowKey={({ name }) => name}
        columns={CONSUMERS}
        empty={<Empty title="No consumers: no hook and no export is configured." />}
      />
      {can('listDeadLetters') && <DeadLetters entry={entry} />}
      <LoadedTable
        caption="The last 24 hours"
        loaded={counts}
        rows={totalsOf}
        rowKey={({ kind }) => kind}
        columns={[
          { head: 'Event', kind: 'wide', cell: ({ kind }) => <code>{kind}</code> },
          { head: 'Count', member: 'events', kind: 'number' },
        ]}
        empty={<Empty title="No events" />}
      />
    </Page>
  )
}

function totalsOf(counts: Output<'getEventCounts'>): { kind: string; events: number }[] {
  const totals = new Map<string, number>()
  for (const { kind, events } of counts) totals.set(kind, (totals.get(kind) ?? 0) + events)
  return [...totals].map(([kind, events]) => ({ kind, events })).sort((a, b) => b.events - a.events)
}

function DeadLetters({ entry }: { entry: number }) {
  const list = useList('listDeadLetters', {}, entry)
  const [opened, setOpened] = useState<Letter>()
  const retry = async ({ id }: Letter) => {
    await call('retryDeadLetter', { params: { dead_letter_id: id } })
    tell('The event will be redelivered.')
    list.reload()
  }
  const columns: Column<Letter>[] = [
    { head: 'Event', member: 'kind', kind: 'code' },
    { head: 'Subject', kind: 'wide', cell: ({ subject }) => <code>{subject}</code> },
    { head: 'Consumer', member: 'consumer', sorts: true },
    { head: 'Error', member: 'error', kind: 'wide' },
    { head: 'Failed', member: 'failed_at', kind: 'time' },
    {
      head: 'Actions',
      cell: (letter) => (
        <div class="actions left">
          <Button kind="small" text="View" onClick={() => setOpened(letter)} />
          <Button
            kind="small"
            text="Redeliver"
            needs="retryDeadLetter"
            onClick={() => retry(letter).catch((cause: Error) => tell(cause.message, 'bad'))}
          />
        </div>
      ),
    },
  ]
  const chosenActions = (chosen: readonly Letter[], clear: () => void) => (
    <Redeliver
      count={chosen.length}
      selection={{ ids: chosen.map(({ id }) => id) }}
      onDone={() => {
        clear()
        list.reload()
      }}
    />
  )
  return (
    <Section title="Undelivered events">
      <LetterCauses onRetried={list.reload} />
      <List
        caption="Undelivered events"
        list={list}
        columns={columns}
        onChosen={can('retryDeadLetters') ? chosenActions : undefined}
        empty={<Empty title="No undelivered events" />}
      />
      {opened && <OpenLetter letter={opened} onClose={() => setOpened(undefined)} />}
    </Section>
  )
}

const LETTER_FACTS: readonly Column<Letter>[] = [
  { head: 'Consumer', member: 'consumer' },
  { head: 'Event id', member: 'event_id' },
  { head: 'Attempts', cell: ({ attempts }) => String(attempts) },
  { head: 'Error', member: 'error' },
]

const OpenLetter = ({ letter, onClose }: { letter: Letter; onClose: () => void }) => (
  <Dialog title={letter.kind} wide onClose={onClose}>
    <Facts rows={factsOf(letter, LETTER_FACTS)} />
    <Copyable text={JSON.stringify(letter.data, null, 2)} block />
    <CloseButton onClose={onClose} />
  </Dialog>
)

interface RedeliverProps {
  count: number
  selection: NonNullable<Input<'retryDeadLetters'>['body']>
  onDone: () => void
  label?: string
}

const Redeliver = ({ count, selection, onDone, label }: RedeliverProps) => (
  <Action
    needs="retryDeadLetters"
    kind="small"
    action="Redeliver"
    label={label}
    consequence={`${counted(count, 'event is', 'events are')} delivered again under the same id, at most 1,000 at once.`}
    onConfirm={() => call('retryDeadLetters', { body: selection })}
    onDone={({ retried }) => {
      if (retried === 0) tell('No event: no instance has the consumer any more.', 'bad')
      else tell(`${counted(retried, 'event')} will be redelivered.`)
      onDone()
    }}
  />
)

function LetterCauses({ onRetried }: { onRetried: () => void }) {
  const loaded = useApi('listDeadLetterCauses', {})
  const onDone = () => {
    loaded.reload()
    onRetried()
  }
  return (
    <Ready loaded={loaded}>
      {(causes) =>
        causes.length > 0 && (
          <Table
            caption="By cause"
            showCaption
            rows={causes}
            rowKey={({ consumer, error }) => `${consumer} ${error}`}
            columns={[
              { head: 'Error', member: 'error', kind: 'wide' },
              { head: 'Consumer', member: 'consumer' },
              { head: 'Events', member: 'events', kind: 'number' },
              { head: 'Last', member: 'last_at', kind: 'time' },
              {
                head: 'Actions',
                cell: ({ consumer, error, events }) => (
                  <Redeliver
                    count={events}
                    selection={{ consumer, error }}
                    label={`Redeliver: ${error}`}
                    onDone={onDone}
                  />
                ),
              },
            ]}
          />
        )
      }
    </Ready>
  )
}
