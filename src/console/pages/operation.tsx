/** Maintenance and the signing stop, with who and since when; and the background tasks. */

import { useState } from 'preact/hooks'
import { call, type Output, useApi } from '../api.ts'
import { Allowed, Badge, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { TextField } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { countText } from '../format.ts'
import { WORDS } from '../words.ts'

const POLL_MS = 5_000

type Overview = Output<'getOverview'>

interface Switch {
  words: typeof WORDS.operation.maintenance | typeof WORDS.operation.signing
  isOn: boolean
  since: Overview['maintenance']
  operation: 'setMaintenance' | 'setSigning'
  set: (isOn: boolean, reason: string) => Promise<unknown>
}

const switchesOf = ({ maintenance, signing }: Overview): Switch[] => [
  {
    words: WORDS.operation.maintenance,
    operation: 'setMaintenance',
    isOn: maintenance.maintenance_mode,
    since: maintenance,
    set: (enabled, reason) => call('setMaintenance', { body: { enabled, ...(reason && { reason }) } }),
  },
  {
    words: WORDS.operation.signing,
    operation: 'setSigning',
    isOn: signing.signing_stopped,
    since: { ...signing, maintenance_mode: false },
    set: (stopped, reason) => call('setSigning', { body: { stopped, ...(reason && { reason }) } }),
  },
]

export function OperationPage() {
  const loaded = useApi('getOverview', {}, { every: POLL_MS })
  return (
    <Page title={WORDS.pages.operation} actions={<Freshness loaded={loaded} />}>
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
  const [isAsking, setAsking] = useState(false)
  const [reason, setReason] = useState('')
  const action = isOn ? words.end : words.begin
  return (
    <section class="section">
      <h2>
        {words.title} <Badge tone={isOn ? 'warn' : 'good'}>{isOn ? words.on : words.off}</Badge>
      </h2>
      <p class="quiet">{words.about}</p>
      <Facts
        rows={[
          [WORDS.operation.since, since.since && <Time at={since.since} />],
          [WORDS.operation.by, since.set_by],
          [WORDS.operation.reason, since.reason],
        ]}
      />
      <Allowed to={operation}>
        <div class="actions left">
          <button type="button" class={isOn ? 'primary' : 'danger'} onClick={() => setAsking(true)}>
            {action}
          </button>
        </div>
      </Allowed>
      {isAsking && (
        <Confirm
          title={action}
          consequence={<p>{isOn ? words.endConsequence : words.beginConsequence}</p>}
          action={action}
          danger={!isOn}
          onClose={() => setAsking(false)}
          onConfirm={async () => {
            await set(!isOn, reason)
            setReason('')
            reload()
          }}
        >
          <TextField
            label={WORDS.operation.reason}
            help={WORDS.operation.reasonHelp}
            value={reason}
            onChange={setReason}
          />
        </Confirm>
      )}
    </section>
  )
}

function Tasks() {
  const loaded = useApi('getWorkers', {}, { every: POLL_MS })
  return (
    <section class="section">
      <h2>{WORDS.operation.tasks}</h2>
      <Ready loaded={loaded}>
        {({ tasks }) => (
          <Table
            caption={WORDS.operation.tasks}
            rows={tasks}
            rowKey={({ name }) => name}
            columns={[
              { head: WORDS.operation.task, kind: 'fixed', cell: ({ name }) => name },
              {
                head: WORDS.operation.leader,
                kind: 'fixed',
                cell: ({ leader, leader_is_alive }) =>
                  leader_is_alive ? leader : WORDS.operation.gone(String(leader)),
              },
              {
                head: WORDS.operation.last,
                kind: 'fixed',
                cell: ({ last_run }) => <Time at={last_run} relative={false} />,
              },
              {
                head: WORDS.operation.next,
                kind: 'fixed',
                cell: ({ next_run }) => <Time at={next_run} relative={false} />,
              },
              { head: WORDS.operation.errors, kind: 'number', cell: ({ errors }) => countText(errors) },
              { head: WORDS.orders.error, kind: 'wide', cell: ({ last_error }) => last_error },
            ]}
          />
        )}
      </Ready>
    </section>
  )
}
