/** Maintenance and the signing stop, with who and since when; and the background tasks. */

import type { Output } from '../api.ts'
import { Badge, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { type Column, factsOf } from '../components/columns.tsx'
import { LoadedTable } from '../components/loaded.tsx'
import { Page, Section } from '../components/page.tsx'
import { POLL_MS, useApi } from '../use-api.ts'
import { type Switch, SwitchButton, switchesOf } from './overview-health.tsx'

const EVERY = { every: POLL_MS }

const TASKS: readonly Column<Output<'getWorkers'>['tasks'][number]>[] = [
  { head: 'Task', member: 'name', kind: 'fixed' },
  {
    head: 'Instance',
    kind: 'fixed',
    cell: ({ leader, leader_is_alive }) => (leader_is_alive ? leader : `${String(leader)}, gone`),
  },
  { head: 'Last run', member: 'last_run', kind: 'instant' },
  { head: 'Next run', member: 'next_run', kind: 'instant' },
  { head: 'Failures', member: 'errors', kind: 'number' },
  { head: 'Error', member: 'last_error', kind: 'wide' },
]

const SINCE: readonly Column<Switch['since']>[] = [
  { head: 'Since', cell: ({ since }) => since && <Time at={since} /> },
  { head: 'By', member: 'set_by' },
  { head: 'Reason', member: 'reason' },
]

export function OperationPage() {
  const loaded = useApi('getOverview', {}, EVERY)
  const workers = useApi('getWorkers', {}, EVERY)
  return (
    <Page title="Maintenance and signing" actions={<Freshness loaded={loaded} />}>
      <Ready loaded={loaded}>
        {(overview) => (
          <div class="columns">
            {switchesOf(overview).map((one) => (
              <SwitchSection key={one.operation} {...one} reload={loaded.reload} />
            ))}
          </div>
        )}
      </Ready>
      <LoadedTable
        caption="Background tasks"
        loaded={workers}
        rows={({ tasks }) => tasks}
        rowKey={({ name }) => name}
        columns={TASKS}
      />
    </Page>
  )
}

function SwitchSection(one: Switch & { reload: () => void }) {
  const { words, isOn, since } = one
  return (
    <Section
      title={
        <>
          {words.title} <Badge tone={isOn ? 'warn' : 'good'}>{isOn ? words.on : words.off}</Badge>
        </>
      }
    >
      <p class="quiet">{words.about}</p>
      <Facts rows={factsOf(since, SINCE)} />
      <div class="actions left">
        <SwitchButton {...one} />
      </div>
    </Section>
  )
}
