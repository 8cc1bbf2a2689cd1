/** The mail server. */

import { MailTransport } from '../../events/notifications/transport.ts'
import { mailSettings } from '../../settings/event-settings.ts'
import type { Check } from '../check.ts'
import { failure, messageOf, ok } from '../verdict.ts'

const LIMIT_MS = 10_000

export const MAIL: readonly Check[] = [
  {
    id: 'mail.server',
    title: 'The mail server takes the login; no mail is sent',
    async look({ config }) {
      if (!config.smtp.enabled) return undefined
      const settings = mailSettings(config)
      const transport = new MailTransport({ ...settings, timeoutMs: Math.min(settings.timeoutMs, LIMIT_MS) })
      const place = `${settings.host}:${settings.port}`
      try {
        await transport.probe()
        return ok(`${place} answers (smtp.tls: ${settings.tls})`)
      } catch (error) {
        return failure(
          `the mail server ${place} (smtp.tls: ${settings.tls}) cannot be used: ${messageOf(error)}`,
          'correct smtp.host, port, tls, username or ca_file; chancery -c FILE mail test --to ADDRESS sends a mail',
        )
      } finally {
        transport.close()
      }
    },
  },
]
