/** Decisions of people and clients that a fail-over of the database has lost: what is back, and what is to be repeated. */

import { actionText } from '../../domain/action-words.ts'
import { call, type Output } from '../api.ts'
import { Badge, Empty, Time, type Tone } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { listPage } from '../components/list.tsx'
import { counted } from '../format.ts'
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
  { head: 'Time', member: 'decided_at', kind: 'instant' },
  { head: 'Who', member: 'decided_by', kind: 'fixed', sorts: true },
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
  { head: 'Found', member: 'found_at', kind: 'time' },
]

export const LostDecisionsPage = listPage('listLostDecisions', {
  title: 'Lost decisions',
  about: 'What people and clients had decided when the database failed over to a copy that lacked it.',
  filters: FILTERS,
  columns: COLUMNS,
  actions: (reload) => <Accept what="all of them, also those that a filter hides" onDone={reload} />,
  chosen: {
    needs: 'acceptLostDecisions',
    actions: (chosen, done) => (
      <Accept ids={chosen.map(({ id }) => id)} what={counted(chosen.length, 'act')} onDone={done} />
    ),
  },
  empty: (
    <Empty title="No lost decisions">
      <p>An act appears here when a fail-over of the database has lost it.</p>
    </Empty>
  ),
})

interface AcceptProps {
  /** All are accepted when there are none. */
  ids?: string[]
  what: string
  onDone: () => void
}

const Accept = ({ ids, what, onDone }: AcceptProps) => (
  <Action
    needs="acceptLostDecisions"
    action={ids ? 'Nothing more to do about these' : 'Nothing more to do'}
    consequence={`The overview names them no more: ${what}. They stay on this list, and the audit log says who accepted them.`}
    onConfirm={() => call('acceptLostDecisions', { body: ids ? { ids } : {} })}
    done={({ accepted }) =>
      accepted === 0 ? 'All of them were accepted before.' : `${counted(accepted, 'act is', 'acts are')} accepted.`
    }
    onDone={onDone}
  />
)
