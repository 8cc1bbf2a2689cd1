/** Mails that administrators send themselves: words of templates, and a test of the mail server. */

import { randomUUID } from 'node:crypto'
import type { AdminMail } from '../../admin/context.ts'
import type { Config } from '../../config/schema.ts'
import { MailTemplates } from '../../events/notifications/templates.ts'
import { MailTransport } from '../../events/notifications/transport.ts'
import { mailSettings, templatesPath } from '../../settings/notification-settings.ts'

export function adminMail(config: Config): AdminMail {
  const serverUrl = config.server.external_url
  let templates: MailTemplates | undefined
  return {
    isEnabled: config.smtp.enabled,
    serverUrl,
    // The events thread has told of a broken one.
    templates: () => (templates ??= new MailTemplates(templatesPath(config), () => undefined)),
    async sendTest(recipient) {
      const transport = new MailTransport(mailSettings(config))
      const text = `This is a test of the mail settings of ${serverUrl}.\n`
      const messageId = `<${randomUUID()}@${new URL(serverUrl).hostname}>`
      try {
        await transport.send({ recipient, subject: 'Test mail', text, html: `<p>${text.trim()}</p>`, messageId })
      } finally {
        transport.close()
      }
    },
  }
}
