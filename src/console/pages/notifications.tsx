/** Notifications: what was mailed, what was not and why; another attempt, and purging. */

import { useState } from 'preact/hooks'
import { NOTIFICATION_FILTERS } from '../../admin/resources/operation.ts'
import { call, can, type Input, type Output } from '../api.ts'
import { Empty, Facts, LongText, Ready } from '../components/basics.tsx'
import { type Column, factsOf } from '../components/columns.tsx'
import { Action, CloseButton, Dialog } from '../components/dialog.tsx'
import { WorkButton } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { TableSection } from '../components/table.tsx'
import { counted } from '../format.ts'
import { href, type PageProps, type Query } from '../router.ts'
import { useApi, useList } from '../use-api.ts'

type Notification = Output<'listNotifications'>[number]

const STATUS: Column<{ status: string }> = {
  head: 'Status',
  member: 'status',
  sorts: true,
  tones: { sent: 'good', failed: 'bad', pending: 'warn' },
}

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
  { head: 'Type', kind: 'word', cell: ({ notification_type }) => notification_type.replaceAll('_', ' ') },
  { head: 'Recipient', member: 'recipient', kind: 'wide', sorts: true },
  STATUS,
  { head: 'Error', member: 'error_detail', kind: 'wide' },
  { head: 'Created', member: 'created_at', kind: 'instant' },
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
          <Retry
            selection={{}}
            action="Retry all failed"
            consequence="All failed notifications are mailed again, old ones too."
            onDone={list.reload}
          />
          <Action
            needs="purgeNotifications"
            action="Purge"
            danger
            consequence="Deletes notifications that were sent or have failed for good. It cannot be undone."
            fields={{ days: { label: 'Older than (days)', type: 'number', value: '30' } }}
            onConfirm={({ days }) => call('purgeNotifications', { body: { days: Number(days) } })}
            done={({ purged }) => `${counted(purged, 'notification is', 'notifications are')} deleted.`}
            onDone={list.reload}
          />
          <WorkButton needs="sendTestMail" text="Send me a test mail" busyText="Sending …" work={sendTestMail} />
        </>
      }
      query={query}
      filters={NOTIFICATION_FILTERS}
      list={list}
      columns={columnsOf(setOpened)}
      onChosen={can('retryNotifications') ? chosenActions : undefined}
      empty={
        <Empty
          title="No notifications"
          about="They are recorded while notifications.enabled is on, and mailed while smtp.enabled is on."
        />
      }
    >
      {can('listNotificationCauses') && <Causes query={query} onRetried={list.reload} />}
      {opened !== undefined && <Body id={opened} onClose={() => setOpened(undefined)} />}
    </ListPage>
  )
}

interface RetryProps {
  selection: NonNullable<Input<'retryNotifications'>['body']>
  action?: string
  kind?: 'small'
  label?: string
  disabled?: boolean
  consequence: string
  onDone: () => void
}

const Retry = ({ selection, action = 'Send again', ...props }: RetryProps) => (
  <Action
    {...props}
    needs="retryNotifications"
    action={action}
    onConfirm={() => call('retryNotifications', { body: selection })}
    done={({ retried }) => `${counted(retried, 'notification is', 'notifications are')} queued again.`}
  />
)

function RetryChosen({ chosen, done }: { chosen: readonly Notification[]; done: () => void }) {
  const failed = chosen.filter(({ status }) => status === 'failed')
  return (
    <Retry
      kind="small"
      selection={{ ids: failed.map(({ id }) => id) }}
      disabled={failed.length === 0}
      consequence={`${counted(failed.length, 'failed mail is', 'failed mails are')} sent again.`}
      onDone={done}
    />
  )
}

type Cause = Output<'listNotificationCauses'>[number]
const placeOf = ({ notification_type, cause }: Pick<Cause, 'notification_type' | 'cause'>) =>
  href('/notifications', { status: 'failed', notification_type, cause })

/** Lists why mails have failed: a server that is away fails hundreds for one reason. */
function Causes({ query, onRetried }: { query: Query; onRetried: () => void }) {
  const loaded = useApi('listNotificationCauses', {})
  const { notification_type: shownType, cause: shownCause } = query
  const onDone = () => {
    loaded.reload()
    onRetried()
  }
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
              { head: 'Mails', member: 'notifications', kind: 'number' },
              { head: 'Recipients', member: 'recipients', kind: 'number' },
              { head: 'Last', member: 'last_at', kind: 'time' },
              {
                head: 'Actions',
                cell: ({ notification_type, cause, notifications }) => (
                  <Retry
                    kind="small"
                    label={`Send again: ${cause}`}
                    selection={{ notification_type, cause }}
                    consequence={`${counted(notifications, 'mail is', 'mails are')} sent again.`}
                    onDone={onDone}
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

/** Says what the mail server has answered, or that nobody knows. */
function resultText({ recipient, status, error }: Output<'sendTestMail'>): string {
  if (status === 'sent') return `The mail server has taken a mail to ${recipient}.`
  if (error !== null) return `Not sent to ${recipient}: ${error}`
  return `Not sent to ${recipient} within 15 seconds. Are smtp.enabled and notifications.enabled on? A mail that still waits goes out later.`
}

async function sendTestMail(): Promise<void> {
  const result = await call('sendTestMail', {})
  tell(resultText(result), result.status === 'sent' ? 'good' : 'bad')
}

const MAIL_FACTS: readonly Column<Output<'getNotification'>>[] = [
  { head: 'Recipient', member: 'recipient' },
  STATUS,
  { head: 'Error', member: 'error_detail' },
  { head: 'Retries', cell: ({ retry_count }) => String(retry_count) },
  { head: 'Sent', member: 'sent_at', kind: 'time' },
]

/** Shows the text alone: a mail's HTML has no business in this page. */
function Body({ id, onClose }: { id: string; onClose: () => void }) {
  const loaded = useApi('getNotification', { params: { notification_id: id } })
  return (
    <Dialog title={loaded.data?.subject ?? 'Notifications'} wide onClose={onClose}>
      <Ready loaded={loaded}>
        {(one) => (
          <>
            <Facts rows={factsOf(one, MAIL_FACTS)} />
            <LongText>{one.body_text}</LongText>
          </>
        )}
      </Ready>
      <CloseButton onClose={onClose} />
    </Dialog>
  )
}
