/** Maintenance and the signing stop, with who and since when; and the background tasks. */

import { Badge, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { countText } from '../format.ts'
import { useApi } from '../use-api.ts'
import { type Switch, SwitchButton, switchesOf } from './switches.tsx'

const POLL_MS = 5_000

export function OperationPage() {
  const loaded = useApi('getOverview', {}, { every: POLL_MS })
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
      <Tasks />
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
      <Facts
        rows={[
          ['Since', since.since && <Time at={since.since} />],
          ['By', since.set_by],
          ['Reason', since.reason],
        ]}
      />
      <div class="actions left">
        <SwitchButton {...one} />
      </div>
    </Section>
  )
}

function Tasks() {
  const loaded = useApi('getWorkers', {}, { every: POLL_MS })
  return (
    <Section title="Background tasks">
      <Ready loaded={loaded}>
        {({ tasks }) => (
          <Table
            caption="Background tasks"
            rows={tasks}
            rowKey={({ name }) => name}
            columns={[
              { head: 'Task', kind: 'fixed', cell: ({ name }) => name },
              {
                head: 'Instance',
                kind: 'fixed',
                cell: ({ leader, leader_is_alive }) => (leader_is_alive ? leader : `${String(leader)}, gone`),
              },
              {
                head: 'Last run',
                kind: 'fixed',
                cell: ({ last_run }) => <Time at={last_run} relative={false} />,
              },
              {
                head: 'Next run',
                kind: 'fixed',
                cell: ({ next_run }) => <Time at={next_run} relative={false} />,
              },
              { head: 'Failures', kind: 'number', cell: ({ errors }) => countText(errors) },
              { head: 'Error', kind: 'wide', cell: ({ last_error }) => last_error },
            ]}
          />
        )}
      </Ready>
    </Section>
  )
}
