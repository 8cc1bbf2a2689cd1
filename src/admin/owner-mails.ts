/** Records mails to the owners of accounts as notifications, which are then sent as all others. */

import type { CommonQueryMethods } from 'slonik'
import { AdminError } from '../domain/admin-error.ts'
import type { NotificationType } from '../domain/notification.ts'
import type { RenderedMail } from '../events/notifications/templates.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { insertNotifications, type NewNotification } from '../store/notification-store.ts'
import type { AdminMail } from './context.ts'

export interface OwnerMail {
  /** Undefined for certificates of no account. */
  accountId: string | undefined
  /** Each gets a mail of its own. */
  recipients: readonly string[]
  rendered: RenderedMail
}

const PAGE = 500

/** @returns the ids of what was recorded; @throws AdminError where no mail is sent */
export async function recordOwnerMails(
  tx: CommonQueryMethods,
  { isEnabled, serverUrl }: AdminMail,
  type: NotificationType,
  mails: readonly OwnerMail[],
): Promise<string[]> {
  if (!isEnabled)
    throw new AdminError('conflict', 'smtp.enabled or notifications.enabled is false: the owners cannot be told')
  const host = new URL(serverUrl).hostname.replaceAll(/[^\w.-]/g, '')
  const now = new Date()
  const added = mails.flatMap(({ accountId, recipients, rendered }) =>
    recipients.map((recipient): NewNotification => {
      const id = uuidv7(now.getTime())
      return { id, type, recipient, ...rendered, accountId, dueAt: now, error: undefined, messageId: `<${id}@${host}>` }
    }),
  )
  for (let at = 0; at < added.length; at += PAGE) await insertNotifications(tx, added.slice(at, at + PAGE))
  return added.map(({ id }) => id)
}
