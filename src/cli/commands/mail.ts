/** `chancery mail …` and `chancery notifications …`: a look at mails, and at those that wait. */

import { randomUUID } from 'node:crypto'
import type { Config } from '../../config/schema.ts'
import { isNotificationType, type NotificationStatus } from '../../domain/notification.ts'
import { sampleOf } from '../../events/notifications/samples.ts'
import { MailTemplates } from '../../events/notifications/templates.ts'
import { MailTransport } from '../../events/notifications/transport.ts'
import { NotificationList } from '../../services/admin/notifications.ts'
import { mailSettings, templatesPath } from '../../settings/notifications.ts'
import { CommandError } from '../values.ts'
import { withAdministration } from './administration.ts'

export async function sendTestMail(config: Config, recipient: string): Promise<number> {
  const settings = mailSettings(config)
  if (settings.host === '' || settings.from === '') throw new CommandError('smtp.host and smtp.from_address are needed')
  const text = `This is a test of the mail settings of ${settings.serverUrl}.\n`
  const transport = new MailTransport(settings)
  try {
    await transport.send({
      ...{ recipient, text, subject: 'Test mail', html: `<p>${text.trim()}</p>` },
      messageId: `<${randomUUID()}@${new URL(settings.serverUrl).hostname}>`,
    })
  } catch (error) {
    throw new CommandError(`${settings.host}:${settings.port} did not take the mail: ${(error as Error).message}`)
  } finally {
    transport.close()
  }
  console.log(`${settings.host}:${settings.port} has taken the mail for ${recipient}`)
  return 0
}

export async function previewMail(config: Config, type: string, { html }: { html: boolean }): Promise<number> {
  if (!isNotificationType(type)) throw new CommandError(`${JSON.stringify(type)} is no notification type`)
  let code = 0
  const templates = new MailTemplates(templatesPath(config), (file, error) => {
    code = 1
    console.error(`${file} is broken, and the built-in one is used: ${(error as Error).message}`)
  })
  const mail = templates.render(type, sampleOf(type))
  console.log(html ? mail.html : `Subject: ${mail.subject}\n\n${mail.text}`)
  return code
}

interface ListOptions {
  status: NotificationStatus | undefined
  limit: number
  json: boolean
}

export async function listMails(config: Config, { status, limit, json }: ListOptions): Promise<number> {
  const rows = await withAdministration(config, ({ db, audit }) =>
    new NotificationList(db, audit).page(status, limit, 0),
  )
  if (json) console.log(JSON.stringify({ notifications: rows }, null, 2))
  for (const row of json ? [] : rows) {
    const reason = row.error_detail === null ? '' : `  ${row.error_detail}`
    console.log(`${row.status.padEnd(7)}  ${row.created_at.toISOString()}  ${row.recipient}  ${row.subject}${reason}`)
  }
  return 0
}

export async function retryMails(config: Config): Promise<number> {
  const retried = await withAdministration(config, ({ db, audit, actor }) =>
    new NotificationList(db, audit).retry(actor),
  )
  console.log(`${retried} queued again`)
  return 0
}

export async function purgeMails(config: Config, days: number): Promise<number> {
  const purged = await withAdministration(config, ({ db, audit, actor }) =>
    new NotificationList(db, audit).purge(actor, days),
  )
  console.log(`${purged} deleted`)
  return 0
}
