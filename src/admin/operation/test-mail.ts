/** A mail to the caller, by the way that all mails go, and what became of it. */

import { setTimeout as sleep } from 'node:timers/promises'
import { TEST_MAIL } from '../../domain/notification.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { insertNotifications } from '../../store/notification-store.ts'
import type { AdminContext } from '../context.ts'
import type { SignedIn } from '../users/sign-in.ts'
import { requireUser } from '../users/users.ts'
import { findNotification } from './notification-list.ts'

/** The mailer looks every second; a mail server may take some more for its greeting. */
const WAIT_MS = 15_000
const LOOK_MS = 250

const TEXT = 'This is a test mail of Chancery. It was sent because you asked for it in the console or by the Admin API.'

export async function sendTestMail({ db, audit, baseUrl }: AdminContext, author: SignedIn) {
  const { email: recipient } = await requireUser(db, author.userId)
  const id = uuidv7(Date.now())
  await audit.transaction(author, async (tx, note) => {
    await insertNotifications(tx, [
      {
        id,
        recipient,
        type: TEST_MAIL,
        subject: 'Test mail',
        text: TEXT,
        html: `<p>${TEXT}</p>`,
        accountId: undefined,
        dueAt: new Date(),
        error: undefined,
        messageId: `<${id}@${new URL(baseUrl).hostname}>`,
      },
    ])
    note('notification.test', { recipient })
  })
  const deadline = Date.now() + WAIT_MS
  for (;;) {
    const found = await findNotification(db, id)
    if (found?.status !== 'pending' || Date.now() >= deadline)
      return { recipient, status: found?.status ?? 'pending', error: found?.error_detail ?? null }
    await sleep(LOOK_MS)
  }
}
