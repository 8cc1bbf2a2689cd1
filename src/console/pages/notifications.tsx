/** Notifications: what was mailed, what was not and why; another attempt, and purging. */

import { useState } from 'preact/hooks'
import { call, can, type Input, type Output } from '../api.ts'
import { Allowed, Badge, Empty, Facts, LongText, Problem, Ready, Time, type Tone } from '../components/basics.tsx'
import { Action, CloseButton, Dialog } from '../components/dialog.tsx'
import { type Filter, TextField, useForm, useSubmit } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { type Column, TableSection, timeColumn } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { href, type PageProps, type Query } from '../router.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'

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
  timeColumn('Created', 'created_at', { relative: false }),
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
  const chosenActions = (chosen: readonly Notification[], clear: () => void) => (
    <RetryChosen
      chosen={chosen}
      done={() => {
        clear()
        list.reload()
      }}
    />
  )
  return (
    <ListPage
      title="Notifications"
      actions={
        <>
          <Action
            needs="retryNotifications"
            action="Retry all failed"
            consequence={<p>All failed notifications are mailed again, old ones too.</p>}
            onConfirm={() => retry({}).then(list.reload)}
          />
          <Purge onPurged={list.reload} />
          <TestMail />
        </>
      }
      query={query}
      filters={FILTERS}
      list={list}
      columns={columnsOf(setOpened)}
      onChosen={can('retryNotifications') ? chosenActions : undefined}
      empty={
        <Empty title="No notifications">
          <p>They are recorded while notifications.enabled is on, and mailed while smtp.enabled is on.</p>
        </Empty>
      }
    >
      {can('listNotificationCauses') && <Causes query={query} onRetried={list.reload} />}
      {opened !== undefined && <Body id={opened} onClose={() => setOpened(undefined)} />}
    </ListPage>
  )
}

async function retry(selection: NonNullable<Input<'retryNotifications'>['body']>): Promise<void> {
  const { retried } = await call('retryNotifications', { body: selection })
  tell(`${plural(countText(retried), 'notification is', 'notifications are')} queued again.`)
}

function RetryChosen({ chosen, done }: { chosen: readonly Notification[]; done: () => void }) {
  const failed = chosen.filter(({ status }) => status === 'failed')
  return (
    <Action
      needs="retryNotifications"
      kind="small"
      action="Send again"
      disabled={failed.length === 0}
      consequence={<p>{plural(countText(failed.length), 'failed mail is', 'failed mails are')} sent again.</p>}
      onConfirm={() => retry({ ids: failed.map(({ id }) => id) }).then(done)}
    />
  )
}

type Cause = Output<'listNotificationCauses'>[number]
const placeOf = ({ notification_type, cause }: Pick<Cause, 'notification_type' | 'cause'>) =>
  href('/notifications', { status: 'failed', notification_type, cause })

/** Why mails have failed: a server that is away fails hundreds for one reason. */
function Causes({ query, onRetried }: { query: Query; onRetried: () => void }) {
  const loaded = useApi('listNotificationCauses', {})
  const { notification_type: shownType, cause: shownCause } = query
  if (shownType !== undefined)
    return (
      <p class="bar">
        <span>
          {shownType.replaceAll('_', ' ')}: {shownCause || 'no error is recorded'}
        </span>
        <a href={href('/notifications')}>Show all</a>
      </p>
    )
  return (
    <Ready loaded={loaded}>
      {(causes) =>
        causes.length > 0 && (
          <TableSection
            caption="Failed, by cause"
            rows={causes}
            rowKey={({ notification_type, cause }) => `${notification_type} ${cause}`}
            columns={[
              {
                head: 'Error',
                kind: 'wide',
                cell: (cause) => <a href={placeOf(cause)}>{cause.cause || 'no error is recorded'}</a>,
              },
              { head: 'Type', cell: ({ notification_type }) => notification_type.replaceAll('_', ' ') },
              { head: 'Mails', kind: 'number', cell: ({ notifications }) => countText(notifications) },
              { head: 'Recipients', kind: 'number', cell: ({ recipients }) => countText(recipients) },
              { head: 'Last', kind: 'fixed', cell: ({ last_at }) => <Time at={last_at} /> },
              {
                head: 'Actions',
                cell: (cause) => (
                  <Action
                    needs="retryNotifications"
                    kind="small"
                    action="Send again"
                    label={`Send again: ${cause.cause}`}
                    consequence={<p>{plural(countText(cause.notifications), 'mail is', 'mails are')} sent again.</p>}
                    onConfirm={async () => {
                      await retry({ notification_type: cause.notification_type, cause: cause.cause })
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

/** What the mail server said, or that nobody knows. */
function resultText({ recipient, status, error }: Output<'sendTestMail'>): string {
  if (status === 'sent') return `The mail server has taken a mail to ${recipient}.`
  if (error !== null) return `Not sent to ${recipient}: ${error}`
  return `Not sent to ${recipient} within 15 seconds. Are smtp.enabled and notifications.enabled on? A mail that still waits goes out later.`
}

function TestMail() {
  const { submit, error, isBusy } = useSubmit(async () => {
    const result = await call('sendTestMail', {})
    tell(resultText(result), result.status === 'sent' ? 'good' : 'bad')
  })
  return (
    <Allowed to="sendTestMail">
      <button type="button" disabled={isBusy} onClick={() => submit()}>
        {isBusy ? 'Sending …' : 'Send me a test mail'}
      </button>
      <Problem error={error} />
    </Allowed>
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
            <LongText>{one.body_text}</LongText>
          </>
        )}
      </Ready>
      <CloseButton onClose={onClose} />
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
