/** `chancery mail …`. */

import { NOTIFICATION_TYPES } from '../../domain/notification.ts'
import { isGiven, optional, UsageError } from '../../shared/command-line.ts'
import { onHost } from '../on-host.ts'
import { PRINTING, text } from '../values.ts'

const WHY = 'it reads the mail settings and templates of that host'

export const MAIL = [
  onHost(WHY, {
    usage: 'mail test',
    about: 'Send a mail through the configured server, and say what the server answers',
    options: { to: optional('Recipient', text), ...PRINTING },
    examples: ['-c config.yaml mail test --to ops@example.com'],
    async run({ to, ...options }) {
      if (to === undefined) throw new UsageError('--to: is missing; name the recipient')
      return (await import('../commands/mail.ts')).sendTestMail(options, to)
    },
  }),
  onHost(WHY, {
    usage: 'mail preview <type>',
    about: `Print a mail with sample values. Types: ${NOTIFICATION_TYPES.join(', ')}`,
    options: { html: isGiven('The HTML part instead of the text'), ...PRINTING },
    examples: ['-c config.yaml mail preview expiration_warning'],
    run: async (options, [type = '']) => (await import('../commands/mail.ts')).previewMail(options, type),
  }),
]
