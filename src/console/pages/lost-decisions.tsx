/** What people and clients decided and a fail-over of the database has lost: what of it is back, and what is to be repeated. */

import { actionText } from '../../domain/action-words.ts'
import { call, can, type Input, type Output } from '../api.ts'
import { Badge, Empty, Time, type Tone } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import type { PageProps } from '../router.ts'
import { useList } from '../use-list.ts'
import { Details } from './audit.tsx'

type Lost = Output<'listLostDecisions'>[number]

const OUTCOMES: Readonly<Record<Lost['outcome'], { text: string; tone: Tone; toDo: string }>> = {
  lost: { text: 'lost', tone: 'bad', toDo: 'Repeat it, if you still want it.' },
  partly: {
    text: 'partly back',
    tone: 'warn',
    toDo: 'What it restricts is back. Repeat it, if you still want what it permits.',
  },
  restored: { text: 'back', tone: 'good', toDo: 'Nothing: it is in effect again.' },
  overtaken: { text: 'overtaken', tone: 'plain', toDo: 'Nothing: a later act counts, or what it was about is gone.' },
  entry: { text: 'only its entry', tone: 'plain', toDo: 'Nothing: only its entry in the audit log was lost.' },
}

const FILTERS = [
  {
    name: 'outcome',
    label: 'Outcome',
    options: Object.entries(OUTCOMES).map(([name, { text }]) => [name, text] as const),
  },
  {
    name: 'accepted',
    label: 'Status',
    options: [
      ['false', 'Open'],
      ['true', 'Accepted'],
    ],
  },
] as const

const COLUMNS: readonly Column<Lost>[] = [
  timeColumn('Time', 'decided_at', { relative: false }),
  { head: 'Who', kind: 'fixed', by: ({ decided_by }) => decided_by, cell: ({ decided_by }) => decided_by },
  {
    head: 'What',
    kind: 'wide',
    cell: ({ act, subject, details }) => (
      <>
        <span title={act}>{actionText(act)}</span> <strong>{subject}</strong>
        <Details details={details} />
      </>
    ),
  },
  {
    head: 'Outcome',
    by: ({ outcome }) => outcome,
    cell: ({ outcome }) => <Badge tone={OUTCOMES[outcome].tone}>{OUTCOMES[outcome].text}</Badge>,
  },
  {
    head: 'What to do',
    kind: 'wide',
    cell: ({ outcome, accepted_at: at }) =>
      at ? (
        <>
          Accepted <Time at={at} />
        </>
      ) : (
        OUTCOMES[outcome].toDo
      ),
  },
  timeColumn('Found', 'found_at'),
]

export function LostDecisionsPage({ query, entry }: PageProps) {
  const list = useList('listLostDecisions', { query } as Input<'listLostDecisions'>, entry)
  return (
    <ListPage
      title="Lost decisions"
      about="What people and clients had decided when the database failed over to a copy that lacked it."
      query={query}
      filters={FILTERS}
      list={list}
      columns={COLUMNS}
      actions={<Accept what="all of them, also those that a filter hides" onDone={list.reload} />}
      onChosen={
        can('acceptLostDecisions')
          ? (chosen, clear) => (
              <Accept
                ids={chosen.map(({ id }) => id)}
                what={plural(countText(chosen.length), 'act')}
                onDone={() => {
                  clear()
                  list.reload()
                }}
              />
            )
          : undefined
      }
      empty={
        <Empty title="No lost decisions">
          <p>An act appears here when a fail-over of the database has lost it.</p>
        </Empty>
      }
    />
  )
}

interface AcceptProps {
  /** All when absent. */
  ids?: string[]
  what: string
  onDone: () => void
}

function Accept({ ids, what, onDone }: AcceptProps) {
  return (
    <Action
      needs="acceptLostDecisions"
      action={ids ? 'Nothing more to do about these' : 'Nothing more to do'}
      consequence={
        <p>
          The overview names them no more: {what}. They stay on this list, and the audit log says who accepted them.
        </p>
      }
      onConfirm={async () => {
        const { accepted } = await call('acceptLostDecisions', { body: ids ? { ids } : {} })
        tell(
          accepted === 0
            ? 'All of them were accepted before.'
            : `${plural(countText(accepted), 'act is', 'acts are')} accepted.`,
        )
        onDone()
      }}
    />
  )
}
