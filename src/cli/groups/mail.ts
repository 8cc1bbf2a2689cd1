/** `chancery mail …` and `chancery notifications …`. */

import { NOTIFICATION_STATUSES, NOTIFICATION_TYPES } from '../../domain/notification.ts'
import { isGiven, option, optional, UsageError } from '../../shared/command-line/options.ts'
import { configured } from '../command.ts'
import { oneOf, text, whole } from '../values.ts'

const MAX_ROWS = 1000
const MAX_DAYS = 36_500

export const MAIL = [
  configured({
    usage: 'mail test',
    about: 'Send a mail through the configured server, and say what the server answers',
    options: { to: optional('Recipient', text) },
    examples: ['-c config.yaml mail test --to ops@example.com'],
    async run(config, { to }) {
      if (to === undefined) throw new UsageError('--to: is missing; name the recipient')
      return (await import('../commands/mail.ts')).sendTestMail(config, to)
    },
  }),
  configured({
    usage: 'mail preview <type>',
    about: `Print a mail with sample values. Types: ${NOTIFICATION_TYPES.join(', ')}`,
    options: { html: isGiven('The HTML part instead of the text') },
    examples: ['-c config.yaml mail preview expiration_warning'],
    run: async (config, { html }, [type = '']) =>
      (await import('../commands/mail.ts')).previewMail(config, type, { html }),
  }),
  configured({
    usage: 'notifications list',
    about: 'List notifications, newest first',
    options: {
      status: optional(NOTIFICATION_STATUSES.join(', '), oneOf(NOTIFICATION_STATUSES)),
      limit: option(`At most so many, up to ${MAX_ROWS}`, whole(1, MAX_ROWS), 50),
      json: isGiven('Print JSON'),
    },
    examples: ['-c config.yaml notifications list --status failed'],
    run: async (config, options) => (await import('../commands/mail.ts')).listMails(config, options),
  }),
  configured({
    usage: 'notifications retry',
    about: 'Queue all failed notifications again',
    examples: ['-c config.yaml notifications retry'],
    run: async (config) => (await import('../commands/mail.ts')).retryMails(config),
  }),
  configured({
    usage: 'notifications purge',
    about: 'Delete notifications that were sent or have failed',
    options: { days: option('Only those that are older than so many days', whole(1, MAX_DAYS), 30) },
    examples: ['-c config.yaml notifications purge --days 90'],
    run: async (config, { days }) => (await import('../commands/mail.ts')).purgeMails(config, days),
  }),
]
