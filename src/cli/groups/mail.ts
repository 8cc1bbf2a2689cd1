/** `chancery mail …`. */

import { NOTIFICATION_TYPES } from '../../domain/notification.ts'
import { isGiven, optional, UsageError } from '../../shared/command-line/options.ts'
import { configured, JSON_OPTION } from '../command.ts'
import { text } from '../values.ts'

export const MAIL = [
  configured({
    usage: 'mail test',
    about: 'Send a mail through the configured server, and say what the server answers',
    options: { to: optional('Recipient', text), ...JSON_OPTION },
    examples: ['-c config.yaml mail test --to ops@example.com'],
    async run(config, { to, json }) {
      if (to === undefined) throw new UsageError('--to: is missing; name the recipient')
      return (await import('../commands/mail.ts')).sendTestMail(config, to, json)
    },
  }),
  configured({
    usage: 'mail preview <type>',
    about: `Print a mail with sample values. Types: ${NOTIFICATION_TYPES.join(', ')}`,
    options: { html: isGiven('The HTML part instead of the text'), ...JSON_OPTION },
    examples: ['-c config.yaml mail preview expiration_warning'],
    run: async (config, options, [type = '']) =>
      (await import('../commands/mail.ts')).previewMail(config, type, options),
  }),
]
