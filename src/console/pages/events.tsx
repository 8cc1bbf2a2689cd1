/** Events: what happened in the last day, what waits for its consumers, and what could not be delivered. */

import { useState } from 'preact/hooks'
import { call, can, type Output, useApi, useList } from '../api.ts'
import { Badge, Copyable, Empty, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List, Table } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText, spanText } from '../format.ts'
import type { PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Letter = Output<'listDeadLetters'>[number]
/** As the service judges it (`behind` of /healthz). */
const BEHIND_SECONDS = 300
const POLL_MS = 10_000

export function EventsPage({ entry }: PageProps) {
  const workers = useApi('getWorkers', {}, { every: POLL_MS })
  return (
    <Page title={WORDS.pages.events} actions={<Freshness loaded={workers} />}>
      <section class="section">
        <h2>{WORDS.events.consumers}</h2>
        <Ready loaded={workers}>
          {({ consumers }) => (
            <Table
              caption={WORDS.events.consumers}
              rows={consumers}
              rowKey={({ name }) => name}
              empty={<Empty title={WORDS.events.noConsumers} />}
              columns={[
                { head: WORDS.events.consumer, kind: 'wide', cell: ({ name }) => name },
                {
                  head: WORDS.events.waiting,
                  kind: 'number',
                  cell: ({ waiting }) => (waiting >= 1000 ? '1,000+' : countText(waiting)),
                },
                {
                  head: WORDS.events.oldest,
                  cell: ({ waiting, oldest_seconds: seconds }) =>
                    waiting === 0 ? (
                      <span class="quiet">–</span>
                    ) : (
                      <Badge tone={seconds > BEHIND_SECONDS ? 'warn' : 'good'}>
                        {spanText(seconds) ?? WORDS.time.now}
                      </Badge>
                    ),
                },
              ]}
            />
          )}
        </Ready>
      </section>
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
    tell(WORDS.events.retried)
    list.reload()
  }
  const columns: Column<Letter>[] = [
    { head: WORDS.events.kind, cell: ({ kind }) => <code>{kind}</code> },
    { head: WORDS.events.consumer, cell: ({ consumer }) => consumer },
    { head: WORDS.orders.error, kind: 'wide', cell: ({ error }) => error },
    { head: WORDS.events.failed, kind: 'fixed', cell: ({ failed_at }) => <Time at={failed_at} /> },
    {
      head: WORDS.common.actions,
      cell: (letter) => (
        <div class="actions left">
          <button type="button" class="small" onClick={() => setOpened(letter)}>
            {WORDS.events.show}
          </button>
          {can('retryDeadLetter') && (
            <button
              type="button"
              class="small"
              onClick={() => retry(letter).catch((cause: Error) => tell(cause.message, 'bad'))}
            >
              {WORDS.events.retry}
            </button>
          )}
        </div>
      ),
    },
  ]
  return (
    <section class="section">
      <h2>{WORDS.events.dead}</h2>
      <List
        caption={WORDS.events.dead}
        list={list}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty title={WORDS.events.noDead} />}
      />
      {opened && (
        <Dialog title={opened.kind} wide onClose={() => setOpened(undefined)}>
          <Facts
            rows={[
              [WORDS.events.consumer, opened.consumer],
              [WORDS.events.event, opened.event_id],
              [WORDS.events.attempts, String(opened.attempts)],
              [WORDS.orders.error, opened.error],
            ]}
          />
          <Copyable text={JSON.stringify(opened.data, null, 2)} block />
          <div class="actions">
            <button type="button" onClick={() => setOpened(undefined)}>
              {WORDS.app.close}
            </button>
          </div>
        </Dialog>
      )}
    </section>
  )
}

function Counts() {
  const loaded = useApi('getEventCounts', { query: { hours: '24' } })
  return (
    <section class="section">
      <h2>{WORDS.events.counts}</h2>
      <Ready loaded={loaded}>
        {(counts) => (
          <Table
            caption={WORDS.events.counts}
            rows={totalsOf(counts)}
            rowKey={([kind]) => kind}
            empty={<Empty title={WORDS.events.noCounts} />}
            columns={[
              { head: WORDS.events.kind, kind: 'wide', cell: ([kind]) => <code>{kind}</code> },
              { head: WORDS.events.events, kind: 'number', cell: ([, events]) => countText(events) },
            ]}
          />
        )}
      </Ready>
    </section>
  )
}

function totalsOf(counts: Output<'getEventCounts'>): [kind: string, events: number][] {
  const totals = new Map<string, number>()
  for (const { kind, events } of counts) totals.set(kind, (totals.get(kind) ?? 0) + events)
  return [...totals].sort(([, a], [, b]) => b - a)
}
