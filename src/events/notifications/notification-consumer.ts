/** Records notifications: words and recipients are settled when the event is consumed. */

import type { CommonQueryMethods } from 'slonik'
import type { EventKind, OccurredEvent } from '../../domain/event.ts'
import {
  COUNTED_APART,
  NEVER_SENT,
  NOTIFICATION_LIMITS,
  type NotificationType,
  type TemplateValues,
} from '../../domain/notification.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import {
  countLately,
  countToRecipients,
  findHolders,
  type Holder,
  insertNotifications,
  type NewNotification,
} from '../../store/notification-store.ts'
import { findUser, listUsers } from '../../store/user-store.ts'
import type { DatabaseConsumer } from '../consumer.ts'
import { type Addressed, type Addressee, HOLDER_KINDS, NOTIFIED_KINDS, noticeOf } from './notices.ts'
import type { MailTemplates } from './templates.ts'

const RECIPIENT_WINDOW_MS = 3_600_000

export interface RecordingPolicy {
  enabled: boolean
  disabledTypes: readonly string[]
  /** Mails in an hour, of all accounts. */
  mostToRecipient: number
}

interface NotificationConsumerOptions {
  templates: MailTemplates
  serverUrl: string
  /** Gives the policy after the last SIGHUP. */
  settings(): RecordingPolicy
  recorded(type: NotificationType, recipients: number): void
}

export class NotificationConsumer implements DatabaseConsumer {
  readonly name = 'notifications'
  readonly kinds: readonly EventKind[] = NOTIFIED_KINDS
  readonly holderKinds = HOLDER_KINDS
  readonly #options: NotificationConsumerOptions

  constructor(options: NotificationConsumerOptions) {
    this.#options = options
  }

  async take(events: readonly OccurredEvent[], tx: CommonQueryMethods): Promise<void> {
    const { enabled, disabledTypes, mostToRecipient } = this.#options.settings()
    if (!enabled) return
    const accounts = [...new Set(events.flatMap(({ accountId }) => accountId ?? []))]
    const holders = accounts.length === 0 ? new Map<string, Holder>() : await findHolders(tx, accounts)
    const shares = await sharesOf([...holders.values()], mostToRecipient, tx)
    const added: NewNotification[] = []
    for (const event of events) {
      const notice = event.misfit === undefined ? noticeOf(event) : undefined
      if (!notice || disabledTypes.includes(notice.type)) continue
      const found = await this.#addressed(tx, event, notice.to, holders)
      const recipients: string[] = []
      const { formerAddress } = notice
      const all = formerAddress && found.user ? [formerAddress, ...found.recipients] : found.recipients
      for (const recipient of all)
        if ((await isWithinLimit(tx, event, notice.type, recipient, added)) && shares.take(notice.type, recipient))
          recipients.push(recipient)
      if (recipients.length === 0) continue
      const about = { holder: holders.get(event.accountId ?? ''), user: found.user }
      const values = { ...notice.values(about), ...this.#common(event) }
      added.push(...this.#rows(event, notice.type, recipients, values))
      this.#options.recorded(notice.type, recipients.length)
    }
    if (added.length > 0) await insertNotifications(tx, added)
  }

  #common({ occurredAt }: OccurredEvent): TemplateValues {
    return { server_url: this.#options.serverUrl, timestamp: renderTimestamp(occurredAt) }
  }

  async #addressed(
    tx: CommonQueryMethods,
    event: OccurredEvent,
    to: Addressee,
    holders: ReadonlyMap<string, Holder>,
  ): Promise<{ recipients: string[]; user?: Addressed['user'] }> {
    if (to === 'holder') return { recipients: addressesIn(holders.get(event.accountId ?? '')?.contacts) }
    if (to === 'administrators') {
      const admins = (await listUsers(tx)).filter(({ enabled, role }) => enabled && role === 'admin')
      return { recipients: [...new Set(admins.map(({ email }) => email))] }
    }
    if (event.kind === 'account.registration_failed') return { recipients: addressesIn(event.data.contacts) }
    if (event.kind !== 'admin.action') return { recipients: [] }
    const { target_user_id, user_id, details } = event.data
    const user = target_user_id === null ? null : await findUser(tx, target_user_id)
    if (!user) return { recipients: [] }
    const author = user_id === null ? null : await findUser(tx, user_id)
    const { username, email, role } = user
    // The command line has no user.
    const createdBy = author?.username ?? details.operator ?? 'the service'
    const { approved_by: approvedBy } = details
    return {
      recipients: [email],
      user: { username, email, role, createdBy: approvedBy ? `${createdBy}, approved by ${approvedBy}` : createdBy },
    }
  }

  #rows(
    { accountId, occurredAt }: OccurredEvent,
    type: NotificationType,
    recipients: readonly string[],
    values: TemplateValues,
  ): NewNotification[] {
    const { subject, text, html } = this.#options.templates.render(type, values)
    const host = new URL(this.#options.serverUrl).hostname.replaceAll(/[^\w.-]/g, '')
    return recipients.map((recipient) => {
      const id = uuidv7(Date.now())
      return {
        id,
        type,
        recipient,
        subject,
        text,
        html,
        accountId,
        ...(type === NEVER_SENT
          ? { dueAt: undefined, error: 'never sent: the address may be of somebody else' }
          : { dueAt: occurredAt, error: undefined }),
        messageId: `<${id}@${host}>`,
      }
    })
  }
}

const addressesIn = (contacts: readonly string[] = []) =>
  contacts.filter((uri) => /^mailto:/i.test(uri)).map((uri) => uri.slice('mailto:'.length))

async function isWithinLimit(
  tx: CommonQueryMethods,
  { accountId }: OccurredEvent,
  type: NotificationType,
  recipient: string,
  added: readonly NewNotification[],
): Promise<boolean> {
  const limit = NOTIFICATION_LIMITS[type]
  if (!limit) return true
  const isAlike = (one: NewNotification) => accountId === undefined || one.recipient === recipient
  const here = added.filter((one) => one.type === type && one.accountId === accountId && isAlike(one))
  if (here.length >= limit.most) return false
  const since = new Date(Date.now() - limit.withinMs)
  return here.length + (await countLately(tx, { accountId, type, recipient }, since)) < limit.most
}

/** Contacts are not proven, so mails to one address are limited across all accounts. */
async function sharesOf(holders: readonly Holder[], most: number, tx: CommonQueryMethods) {
  const addresses = new Set(holders.flatMap(({ contacts }) => addressesIn(contacts)).map((one) => one.toLowerCase()))
  const since = new Date(Date.now() - RECIPIENT_WINDOW_MS)
  const taken = addresses.size === 0 ? new Map<string, number>() : await countToRecipients(tx, [...addresses], since)
  return {
    take(type: NotificationType, recipient: string): boolean {
      if (COUNTED_APART.includes(type)) return true
      const address = recipient.toLowerCase()
      const mails = taken.get(address) ?? 0
      if (mails < most) taken.set(address, mails + 1)
      return mails < most
    },
  }
}
