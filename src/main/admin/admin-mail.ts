/** Mails that administrators send themselves. */

import type { AdminMail } from '../../admin/context.ts'
import type { Config } from '../../config/schema.ts'
import { MailTemplates } from '../../events/notifications/templates.ts'
import { templatesPath } from '../../settings/event-settings.ts'

export function adminMail(config: Config): AdminMail {
  let templates: MailTemplates | undefined
  return {
    // Without notifications nothing reads the queue.
    isEnabled: config.smtp.enabled && config.notifications.enabled,
    serverUrl: config.server.external_url,
    templates() {
      // The events thread has told of a broken one.
      templates ??= new MailTemplates(templatesPath(config), () => undefined)
      return templates
    },
  }
}
