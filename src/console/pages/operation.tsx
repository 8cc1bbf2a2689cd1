/** Maintenance and the signing stop, with who and since when; and the background tasks. */

import { useState } from 'preact/hooks'
import { call, type Output, useApi } from '../api.ts'
import { Badge, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField } from '../components/form.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { countText } from '../format.ts'

const POLL_MS = 5_000

type Overview = Output<'getOverview'>

const MAINTENANCE = {
  title: 'Maintenance',
  about: 'Refuses new orders on all instances. Orders in progress continue; certificates stay available.',
  on: 'on',
  off: 'off',
  begin: 'Start maintenance',
  end: 'End maintenance',
  beginConsequence: 'Clients that order are told to come back later, on all instances, within two seconds.',
  endConsequence: 'New orders are accepted again.',
}

const SIGNING: typeof MAINTENANCE = {
  title: 'Signing',
  about: 'The emergency stop: no instance signs a certificate or a CRL.',
  on: 'stopped',
  off: 'running',
  begin: 'Stop signing',
  end: 'Resume signing',
  beginConsequence: 'All instances stop signing within two seconds. CRLs age; revocations wait for the next CRL.',
  endConsequence: 'Certificates and CRLs are signed again.',
}

interface Switch {
  words: typeof MAINTENANCE
  isOn: boolean
  since: Overview['maintenance']
  operation: 'setMaintenance' | 'setSigning'
  set: (isOn: boolean, reason: string) => Promise<unknown>
}

const switchesOf = ({ maintenance, signing }: Overview): Switch[] => [
  {
    words: MAINTENANCE,
    operation: 'setMaintenance',
    isOn: maintenance.maintenance_mode,
    since: maintenance,
    set: (enabled, reason) => call('setMaintenance', { body: { enabled, ...(reason && { reason }) } }),
  },
  {
    words: SIGNING,
    operation: 'setSigning',
    isOn: signing.signing_stopped,
    since: { ...signing, maintenance_mode: false },
    set: (stopped, reason) => call('setSigning', { body: { stopped, ...(reason && { reason }) } }),
  },
]

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

function SwitchSection({ words, isOn, since, operation, set, reload }: Switch & { reload: () => void }) {
  const [reason, setReason] = useState('')
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
        <Action
          needs={operation}
          kind={isOn ? 'primary' : 'danger'}
          action={isOn ? words.end : words.begin}
          consequence={<p>{isOn ? words.endConsequence : words.beginConsequence}</p>}
          onConfirm={async () => {
            await set(!isOn, reason)
            setReason('')
            reload()
          }}
        >
          <TextField
            label="Reason"
            help="Others read it here and in the audit log."
            value={reason}
            onChange={setReason}
          />
        </Action>
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
