/** Events: what happened in the last day, what waits for its consumers, and what could not be delivered. */

import { useState } from 'preact/hooks'
import { call, can, type Input, type Output } from '../api.ts'
import { Badge, Copyable, Empty, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { Action, CloseButton, Dialog } from '../components/dialog.tsx'
import { List } from '../components/list.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { type Column, Table, timeColumn } from '../components/table.tsx'
import { countText, plural, spanText } from '../format.ts'
import type { PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'

type Letter = Output<'listDeadLetters'>[number]
/** As the service judges it (`behind` of /healthz). */
const BEHIND_SECONDS = 300
const POLL_MS = 10_000

export function EventsPage({ entry }: PageProps) {
  const workers = useApi('getWorkers', {}, { every: POLL_MS })
  return (
    <Page title="Events" actions={<Freshness loaded={workers} />}>
      <Section title="Consumers">
        <Ready loaded={workers}>
          {({ consumers }) => (
            <Table
              caption="Consumers"
              rows={consumers}
              rowKey={({ name }) => name}
              empty={<Empty title="No consumers: no hook and no export is configured." />}
              columns={[
                { head: 'Consumer', kind: 'wide', cell: ({ name }) => name },
                {
                  head: 'Waiting',
                  kind: 'number',
                  cell: ({ waiting }) => (waiting >= 1000 ? '1,000+' : countText(waiting)),
                },
                {
                  head: 'Oldest',
                  cell: ({ waiting, oldest_seconds: seconds }) =>
                    waiting === 0 ? (
                      <span class="quiet">–</span>
                    ) : (
                      <Badge tone={seconds > BEHIND_SECONDS ? 'warn' : 'good'}>{spanText(seconds) ?? 'now'}</Badge>
                    ),
                },
              ]}
            />
          )}
        </Ready>
      </Section>
      {can('listDeadLetters') && <DeadLetters entry={entry} />}
      <Counts />
    </Page>
  )
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
    { head: 'Event', cell: ({ kind }) => <code>{kind}</code> },
    { head: 'Subject', kind: 'wide', cell: ({ subject }) => <code>{subject}</code> },
    { head: 'Consumer', by: ({ consumer }) => consumer, cell: ({ consumer }) => consumer },
    { head: 'Error', kind: 'wide', cell: ({ error }) => error },
    timeColumn('Failed', 'failed_at'),
    {
      head: 'Actions',
      cell: (letter) => (
        <div class="actions left">
          <button type="button" class="small" onClick={() => setOpened(letter)}>
            View
          </button>
          {can('retryDeadLetter') && (
            <button
              type="button"
              class="small"
              onClick={() => retry(letter).catch((cause: Error) => tell(cause.message, 'bad'))}
            >
              Redeliver
            </button>
          )}
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
      {opened && (
        <Dialog title={opened.kind} wide onClose={() => setOpened(undefined)}>
          <Facts
            rows={[
              ['Consumer', opened.consumer],
              ['Event id', opened.event_id],
              ['Attempts', String(opened.attempts)],
              ['Error', opened.error],
            ]}
          />
          <Copyable text={JSON.stringify(opened.data, null, 2)} block />
          <CloseButton onClose={() => setOpened(undefined)} />
        </Dialog>
      )}
    </Section>
  )
}

interface RedeliverProps {
  count: number
  selection: NonNullable<Input<'retryDeadLetters'>['body']>
  onDone: () => void
  label?: string
}

function Redeliver({ count, selection, onDone, label }: RedeliverProps) {
  return (
    <Action
      needs="retryDeadLetters"
      kind="small"
      action="Redeliver"
      {...(label !== undefined && { label })}
      consequence={
        <p>
          {plural(countText(count), 'event is', 'events are')} delivered again under the same id, at most 1,000 at once.
        </p>
      }
      onConfirm={async () => {
        const { retried } = await call('retryDeadLetters', { body: selection })
        if (retried === 0) tell('No event: no instance has the consumer any more.', 'bad')
        else tell(`${plural(countText(retried), 'event')} will be redelivered.`)
        onDone()
      }}
    />
  )
}

function LetterCauses({ onRetried }: { onRetried: () => void }) {
  const loaded = useApi('listDeadLetterCauses', {})
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
              { head: 'Error', kind: 'wide', cell: ({ error }) => error },
              { head: 'Consumer', cell: ({ consumer }) => consumer },
              { head: 'Events', kind: 'number', cell: ({ events }) => countText(events) },
              { head: 'Last', kind: 'fixed', cell: ({ last_at }) => <Time at={last_at} /> },
              {
                head: 'Actions',
                cell: ({ consumer, error, events }) => (
                  <Redeliver
                    count={events}
                    selection={{ consumer, error }}
                    label={`Redeliver: ${error}`}
                    onDone={() => {
                      loaded.reload()
                      onRetried()
                    }}
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

function Counts() {
  const loaded = useApi('getEventCounts', { query: { hours: '24' } })
  return (
    <Section title="The last 24 hours">
      <Ready loaded={loaded}>
        {(counts) => (
          <Table
            caption="The last 24 hours"
            rows={totalsOf(counts)}
            rowKey={([kind]) => kind}
            empty={<Empty title="No events" />}
            columns={[
              { head: 'Event', kind: 'wide', cell: ([kind]) => <code>{kind}</code> },
              { head: 'Count', kind: 'number', cell: ([, events]) => countText(events) },
            ]}
          />
        )}
      </Ready>
    </Section>
  )
}

function totalsOf(counts: Output<'getEventCounts'>): [kind: string, events: number][] {
  const totals = new Map<string, number>()
  for (const { kind, events } of counts) totals.set(kind, (totals.get(kind) ?? 0) + events)
  return [...totals].sort(([, a], [, b]) => b - a)
}
