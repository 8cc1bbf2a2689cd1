/** Notifications: what was mailed, what was not and why; another attempt, and purging. */

import { useState } from 'preact/hooks'
import { call, type Input, type Output, useApi, useList } from '../api.ts'
import { Badge, Empty, Facts, Ready, Time, type Tone } from '../components/basics.tsx'
import { Action, Dialog } from '../components/dialog.tsx'
import { type Filter, TextField, useForm } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import type { Column } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import type { PageProps } from '../router.ts'

type Notification = Output<'listNotifications'>[number]

const TONES: Readonly<Record<string, Tone>> = { sent: 'good', failed: 'bad', pending: 'warn' }
const State = ({ status }: { status: string }) => <Badge tone={TONES[status] ?? 'plain'}>{status}</Badge>

const columnsOf = (open: (id: string) => void): Column<Notification>[] => [
  {
    head: 'Subject',
    kind: 'wide',
    cell: ({ id, subject }) => (
      <button type="button" class="link" onClick={() => open(id)}>
        {subject}
      </button>
    ),
  },
  {
    head: 'Type',
    kind: 'word',
    cell: ({ notification_type }) => notification_type.replaceAll('_', ' '),
  },
  { head: 'Recipient', kind: 'wide', by: ({ recipient }) => recipient, cell: ({ recipient }) => recipient },
  { head: 'Status', by: ({ status }) => status, cell: ({ status }) => <State status={status} /> },
  { head: 'Error', kind: 'wide', cell: ({ error_detail }) => error_detail },
  {
    head: 'Created',
    kind: 'fixed',
    by: ({ created_at }) => created_at,
    cell: ({ created_at }) => <Time at={created_at} relative={false} />,
  },
]

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: (['pending', 'sent', 'failed'] as const).map((status) => [status, status] as const),
  },
]

export function NotificationsPage({ query, entry }: PageProps) {
  const list = useList('listNotifications', { query } as Input<'listNotifications'>, entry)
  const [opened, setOpened] = useState<string>()
  return (
    <ListPage
      title="Notifications"
      actions={
        <>
          <Action
            needs="retryNotifications"
            action="Retry all failed"
            consequence={<p>All failed notifications are mailed again, old ones too.</p>}
            onConfirm={async () => {
              const { retried } = await call('retryNotifications', {})
              tell(`${plural(countText(retried), 'notification is', 'notifications are')} queued again.`)
              list.reload()
            }}
          />
          <Purge onPurged={list.reload} />
        </>
      }
      query={query}
      filters={FILTERS}
      list={list}
      columns={columnsOf(setOpened)}
      empty={
        <Empty title="No notifications">
          <p>They are recorded while notifications.enabled is on, and mailed while smtp.enabled is on.</p>
        </Empty>
      }
    >
      {opened !== undefined && <Body id={opened} onClose={() => setOpened(undefined)} />}
    </ListPage>
  )
}

/** The text alone: a mail's HTML has no business in this page. */
function Body({ id, onClose }: { id: string; onClose: () => void }) {
  const loaded = useApi('getNotification', { params: { notification_id: id } })
  return (
    <Dialog title={loaded.data?.subject ?? 'Notifications'} wide onClose={onClose}>
      <Ready loaded={loaded}>
        {(one) => (
          <>
            <Facts
              rows={[
                ['Recipient', one.recipient],
                ['Status', <State key="state" status={one.status} />],
                ['Error', one.error_detail],
                ['Retries', String(one.retry_count)],
                ['Sent', <Time key="sent" at={one.sent_at} />],
              ]}
            />
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard */}
            <pre class="body" tabIndex={0}>
              {one.body_text}
            </pre>
          </>
        )}
      </Ready>
      <div class="actions">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  )
}

function Purge({ onPurged }: { onPurged: () => void }) {
  const { values, field, reset } = useForm({ days: '30' })
  return (
    <Action
      needs="purgeNotifications"
      action="Purge"
      danger
      consequence={<p>Deletes notifications that were sent or have failed for good. It cannot be undone.</p>}
      onOpen={reset}
      onConfirm={async () => {
        const { purged } = await call('purgeNotifications', { body: { days: Number(values.days) } })
        tell(`${plural(countText(purged), 'notification is', 'notifications are')} deleted.`)
        onPurged()
      }}
    >
      {(error) => <TextField label="Older than (days)" type="number" {...field('days', error)} />}
    </Action>
  )
}
