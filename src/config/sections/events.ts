/** Notices to other systems: `smtp`, `notifications`, `hooks`, `ct_logging`. */

import * as z from 'zod/v4'
import { EVENT_KINDS } from '../../domain/event.ts'
import { NOTIFICATION_TYPES } from '../../domain/notification.ts'
import {
  checkedText,
  EMAIL,
  entry,
  flag,
  httpUrl,
  isEmail,
  list,
  optionalText,
  optionalWhole,
  port,
  seconds,
  section,
  setting,
  whole,
} from '../field.ts'

const MAX_HOOKS = 50
const MAX_HOOK_SETTINGS = 20

const emails = () => list(checkedText(EMAIL, isEmail))

export const Smtp = section('The mail server.', {
  enabled: setting(flag(false), 'Send mail.'),
  host: setting(optionalText(), 'Mail server.'),
  port: setting(port(587), 'Port of the mail server.'),
  username: setting(optionalText(), 'User name; without one there is no login.'),
  password: setting(optionalText(), 'Password of the user.', { secret: true }),
  use_tls: setting(flag(true), 'Encrypt. `tls` says how.'),
  tls: setting(
    z.enum(['starttls', 'implicit', 'none']).nullable().default(null),
    '`starttls` requires it, `implicit` begins with TLS, `none` does without. When absent: `none` for `use_tls: false`, `implicit` for port 465, else `starttls`.',
  ),
  ca_file: setting(
    optionalText(),
    "PEM file of the CAs that the mail server's certificate must chain to; Node.js has its own list when absent.",
  ),
  from_address: setting(optionalText(), 'Sender.'),
  cc: setting(emails(), 'Further recipients of every mail.'),
  bcc: setting(emails(), 'Further recipients of every mail, in the envelope only.'),
  templates_path: setting(optionalText(), 'Folder with mail templates of your own.'),
  timeout_seconds: seconds(1, 30, 'Time one delivery may take.'),
})

export const Notifications = section('Notifications of account holders and administrators.', {
  enabled: setting(flag(true), 'Record notifications, and send them when `smtp.enabled` is true.', {
    reload: 'live',
  }),
  max_retries: setting(whole(0, 3), 'Attempts after the first.', { reload: 'live' }),
  retry_delay_seconds: seconds(1, 60, 'Wait before the second attempt.', { reload: 'live' }),
  retry_backoff_multiplier: setting(z.number().min(1).max(10).default(2), 'Factor of the wait per attempt.', {
    reload: 'live',
  }),
  retry_max_delay_seconds: seconds(1, 3600, 'Longest wait between two attempts.', { reload: 'live' }),
  retry_interval_seconds: seconds(1, 300, 'Pause between two looks for failed deliveries.', { reload: 'live' }),
  batch_size: setting(whole(1, 50), 'Notifications taken up at once.', { reload: 'live' }),
  max_per_recipient_per_hour: setting(
    whole(1, 10),
    'Mails to one address in an hour, whatever accounts name it; more are not recorded. Warnings of expiry and mails to administrators are not counted.',
    { reload: 'live' },
  ),
  expiration_warning_days: setting(
    list(z.int().min(1), [30, 14, 7, 1]),
    'Days before expiry at which holders are warned; an empty list sends no warnings.',
    { unit: 'days', reload: 'live' },
  ),
  expiration_check_interval_seconds: seconds(1, 3600, 'Pause between two looks for certificates that expire.', {
    reload: 'live',
  }),
  disabled_types: setting(list(z.string().min(1)), `Types that are not recorded: ${NOTIFICATION_TYPES.join(', ')}.`, {
    reload: 'live',
  }),
})

export const Comment = z
  .union([z.string(), z.array(z.string())])
  .optional()
  .meta({ description: 'Not read: room for a comment.', expects: 'a text or a list of texts' })

const Hook = entry('One hook.', {
  _comment: Comment,
  class: setting(
    checkedText('a module such as ./hooks/notify.js#Notify, a package or a built-in name', isModuleName),
    'Module that handles the events, or `webhook` (docs/hooks.md).',
  ),
  enabled: setting(flag(true), 'A disabled hook is not loaded.'),
  events: setting(
    list(z.enum(EVENT_KINDS)),
    'Events that are handed over; empty or absent is what docs/hooks.md calls told by default.',
  ),
  timeout_seconds: setting(optionalWhole(1, 300), 'Time one call may take; `hooks.timeout_seconds` when absent.', {
    unit: 'seconds',
  }),
  config: setting(
    z
      .record(z.string(), z.unknown())
      .refine((value) => Object.keys(value).length <= MAX_HOOK_SETTINGS)
      .default(() => ({})),
    'Settings of the hook.',
    { secret: true, expects: `keys with values, at most ${MAX_HOOK_SETTINGS}` },
  ),
})

/** A path, a package name or a dotted name, with an optional `#export`. The start checks that it loads. */
function isModuleName(value: string): boolean {
  return (
    /^(?:ext:)?(?:\.{0,2}\/|@?[A-Za-z0-9_-])[\w@./-]*(?:#[A-Za-z_$][\w$]*)?$/.test(value) &&
    !/\.\.[^/]|[./]$/.test(value)
  )
}

export const Hooks = section('Handlers of events.', {
  timeout_seconds: setting(z.int().min(1).max(300).default(30), 'Time one call may take.', { unit: 'seconds' }),
  max_workers: setting(
    z.int().min(1).max(16).default(4),
    'Calls that run at the same time, shared among the hooks; each has at least one.',
  ),
  max_retries: setting(whole(0, 0), 'Attempts after the first; a webhook has its own `config.max_retries`.'),
  dead_letter_log: setting(optionalText(), 'File that receives calls which failed for good.'),
  registered: setting(
    z
      .array(Hook)
      .max(MAX_HOOKS)
      .default(() => []),
    'Hooks, called in this order.',
  ),
})

const CtLog = entry('One log.', {
  url: setting(httpUrl(), 'URL of the log.'),
  public_key_path: setting(
    optionalText(),
    'PEM file with the public key of the log; without it, what the log answers is stored unchecked.',
  ),
  timeout_seconds: seconds(1, 10, 'Time one submission may take.'),
})

export const CtLogging = section('Certificate transparency (RFC 6962).', {
  enabled: setting(flag(false), 'Submit issued certificates to transparency logs, and store their signed timestamps.'),
  submit_precert: setting(flag(false), 'Submit a precertificate and embed the signed timestamps.'),
  logs: setting(list(CtLog), 'The logs.'),
})
