/** Notifications: what was mailed, what was not and why; another attempt, and purging. */

import { useState } from 'preact/hooks'
import { call, type Input, type Output, useApi, useList } from '../api.ts'
import { Allowed, Badge, Empty, Facts, fieldError, Ready, Time, type Tone } from '../components/basics.tsx'
import { Confirm, Dialog } from '../components/dialog.tsx'
import { type Filter, FilterBar } from '../components/filter-bar.tsx'
import { TextField } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'
import type { PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Notification = Output<'listNotifications'>[number]

const TONES: Readonly<Record<string, Tone>> = { sent: 'good', failed: 'bad', pending: 'warn' }
const State = ({ status }: { status: string }) => <Badge tone={TONES[status] ?? 'plain'}>{status}</Badge>

const columnsOf = (open: (id: string) => void): Column<Notification>[] => [
  {
    head: WORDS.notifications.subject,
    kind: 'wide',
    cell: ({ id, subject }) => (
      <button type="button" class="link" onClick={() => open(id)}>
        {subject}
      </button>
    ),
  },
  {
    head: WORDS.notifications.type,
    kind: 'word',
    cell: ({ notification_type }) => notification_type.replaceAll('_', ' '),
  },
  { head: WORDS.notifications.recipient, kind: 'wide', cell: ({ recipient }) => recipient },
  { head: WORDS.common.status, cell: ({ status }) => <State status={status} /> },
  { head: WORDS.orders.error, kind: 'wide', cell: ({ error_detail }) => error_detail },
  { head: WORDS.common.created, kind: 'fixed', cell: ({ created_at }) => <Time at={created_at} relative={false} /> },
]

const FILTERS: readonly Filter[] = [
  {
    name: 'status',
    label: WORDS.common.status,
    options: (['pending', 'sent', 'failed'] as const).map((status) => [status, status] as const),
  },
]

export function NotificationsPage({ query, entry }: PageProps) {
  const list = useList('listNotifications', { query } as Input<'listNotifications'>, entry)
  const [opened, setOpened] = useState<string>()
  const [isPurging, setPurging] = useState(false)
  const [isRetrying, setRetrying] = useState(false)
  return (
    <Page
      title={WORDS.pages.notifications}
      actions={
        <>
          <Allowed to="retryNotifications">
            <button type="button" onClick={() => setRetrying(true)}>
              {WORDS.notifications.retry}
            </button>
          </Allowed>
          <Allowed to="purgeNotifications">
            <button type="button" onClick={() => setPurging(true)}>
              {WORDS.notifications.purge}
            </button>
          </Allowed>
        </>
      }
    >
      <FilterBar query={query} filters={FILTERS} />
      <List
        caption={WORDS.pages.notifications}
        list={list}
        columns={columnsOf(setOpened)}
        rowKey={({ id }) => id}
        empty={
          <Empty title={query['status'] ? WORDS.table.noMatch : WORDS.notifications.empty}>
            <p>{WORDS.notifications.begin}</p>
          </Empty>
        }
      />
      {opened !== undefined && <Body id={opened} onClose={() => setOpened(undefined)} />}
      {isRetrying && (
        <Confirm
          title={WORDS.notifications.retry}
          action={WORDS.notifications.retry}
          consequence={<p>{WORDS.notifications.retryConsequence}</p>}
          onClose={() => setRetrying(false)}
          onConfirm={async () => {
            const { retried } = await call('retryNotifications', {})
            tell(WORDS.notifications.retried(countText(retried)))
            list.reload()
          }}
        />
      )}
      {isPurging && <Purge onClose={() => setPurging(false)} onPurged={list.reload} />}
    </Page>
  )
}

/** The text alone: a mail's HTML has no business in this page. */
function Body({ id, onClose }: { id: string; onClose: () => void }) {
  const loaded = useApi('getNotification', { params: { notification_id: id } })
  return (
    <Dialog title={loaded.data?.subject ?? WORDS.pages.notifications} wide onClose={onClose}>
      <Ready loaded={loaded}>
        {(one) => (
          <>
            <Facts
              rows={[
                [WORDS.notifications.recipient, one.recipient],
                [WORDS.common.status, <State key="state" status={one.status} />],
                [WORDS.orders.error, one.error_detail],
                [WORDS.notifications.retries, String(one.retry_count)],
                [WORDS.notifications.sent, <Time key="sent" at={one.sent_at} />],
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
          {WORDS.app.close}
        </button>
      </div>
    </Dialog>
  )
}

function Purge({ onClose, onPurged }: { onClose: () => void; onPurged: () => void }) {
  const [days, setDays] = useState('30')
  const [error, setError] = useState<unknown>()
  return (
    <Confirm
      title={WORDS.notifications.purge}
      consequence={<p>{WORDS.notifications.purgeConsequence}</p>}
      action={WORDS.notifications.purge}
      danger
      onClose={onClose}
      onConfirm={async () => {
        const { purged } = await call('purgeNotifications', { body: { days: Number(days) } }).catch((cause) => {
          setError(cause)
          throw cause
        })
        tell(WORDS.notifications.purged(countText(purged)))
        onPurged()
      }}
    >
      <TextField
        label={WORDS.notifications.days}
        type="number"
        value={days}
        onChange={setDays}
        error={fieldError(error, 'days')}
      />
    </Confirm>
  )
}
