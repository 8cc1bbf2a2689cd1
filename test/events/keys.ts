/** The configuration keys of events, and which test shows what each does. */

import { LEAVES } from '../../src/config/schema.ts'
import { formatPath } from '../../src/shared/config-file/notice.ts'

const OF_EVENTS =
  /^(?:(?:smtp|notifications|hooks|ct_logging|audit_export|logging\.audit)\.|retention\.(?:notification|expiration_notice)_)/

export const keysOfEvents = (): string[] =>
  LEAVES.map(({ path }) => formatPath(path)).filter((key) => OF_EVENTS.test(key))

const MAIL = 'events/mail.test.ts'
const NOTIFICATIONS = 'events/notifications.test.ts'
const SERVICE = 'events/service.test.ts'
const HOOKS = 'events/hooks.test.ts'
const TRANSPARENCY = 'events/transparency.test.ts'
const AUDIT = 'events/audit-export.test.ts'
const SETTINGS = 'unit/settings/audit.test.ts'

const BY_MAIL = 'an issuance is told by mail over TLS'
const ENVELOPE = 'has both bodies, a stable Message-ID'
const ENCRYPTED = 'goes over STARTTLS or TLS to a server whose certificate is trusted'
const LOGIN = 'a login that is refused concerns the server'
const WAIT = 'the wait doubles up to its cap'
const WITHOUT_DAEMON = 'logging.audit.syslog without a host means this one'
const FILE = 'the file has mode 0600, begins anew when it is full'
const AGES = 'marks and notifications leave at their age'

/** Key → file below `test` and beginning of the name of the test. */
export const SHOWN_BY: Readonly<Record<string, readonly [file: string, name: string]>> = {
  'smtp.enabled': [NOTIFICATIONS, 'without a mail server they are recorded and wait'],
  'smtp.host': [SERVICE, BY_MAIL],
  'smtp.port': [SERVICE, BY_MAIL],
  'smtp.username': [MAIL, LOGIN],
  'smtp.password': [MAIL, LOGIN],
  'smtp.use_tls': [MAIL, ENCRYPTED],
  'smtp.tls': [MAIL, 'never goes in the clear when STARTTLS is required'],
  'smtp.ca_file': [SERVICE, 'a mail server that is not trusted and a consumer that is behind'],
  'smtp.from_address': [MAIL, ENVELOPE],
  'smtp.cc': [MAIL, ENVELOPE],
  'smtp.bcc': [MAIL, ENVELOPE],
  'smtp.templates_path': [NOTIFICATIONS, 'templates of the operator come first'],
  'smtp.timeout_seconds': [MAIL, 'nobody at the port, a silent server'],
  'notifications.enabled': [NOTIFICATIONS, 'disabled types are not recorded; with notifications off, nothing is'],
  'notifications.max_per_recipient_per_hour': [
    'events/notifications.test.ts',
    'one address gets so many mails an hour',
  ],
  'notifications.max_retries': [MAIL, 'a refusal for good is not repeated; others end after max_retries'],
  'notifications.retry_delay_seconds': [MAIL, WAIT],
  'notifications.retry_backoff_multiplier': [MAIL, WAIT],
  'notifications.retry_max_delay_seconds': [MAIL, WAIT],
  'notifications.retry_interval_seconds': [MAIL, 'failed mails wait for the next look at them'],
  'notifications.batch_size': [MAIL, 'no more than a batch is taken up at once'],
  'notifications.expiration_warning_days': ['events/expiration.test.ts', 'every threshold warns when it is reached'],
  'notifications.expiration_check_interval_seconds': [SERVICE, 'health and the command line say'],
  'notifications.disabled_types': [SERVICE, 'SIGHUP changes what is recorded'],
  'hooks.timeout_seconds': [HOOKS, 'one that hangs, spins, throws, leaks or exits harms no other'],
  'hooks.max_workers': ['unit/settings/events.test.ts', 'a key and its effect:'],
  'hooks.max_retries': [HOOKS, 'a failure is repeated up to max_retries times'],
  'hooks.dead_letter_log': [HOOKS, 'the dead letter log has the whole payload'],
  'hooks.registered': [HOOKS, 'one is told the context with the event id'],
  'ct_logging.enabled': [SERVICE, BY_MAIL],
  'ct_logging.submit_precert': ['events/examples.test.ts', "'certificate-transparency'"],
  'ct_logging.logs': [TRANSPARENCY, 'an issued certificate is submitted with its chain'],
  'audit_export.webhook_url': [AUDIT, 'a webhook gets each event, and again what it did not take'],
  'audit_export.webhook_allow_private': [AUDIT, 'a webhook on a private address gets nothing, unless it is permitted'],
  'audit_export.webhook_batch': [AUDIT, 'a webhook that expects arrays gets many events in one request'],
  'audit_export.syslog_host': [AUDIT, 'has priority, kind and id in their places'],
  'audit_export.syslog_port': [AUDIT, 'has priority, kind and id in their places'],
  'audit_export.syslog_transport': [AUDIT, 'has priority, kind and id in their places'],
  'audit_export.syslog_ca_file': [AUDIT, 'a receiver that nobody vouches for gets nothing'],
  'logging.audit.enabled': [SETTINGS, 'the file is written unless the audit log is off'],
  'logging.audit.file': [AUDIT, FILE],
  'logging.audit.syslog': [SETTINGS, WITHOUT_DAEMON],
  'logging.audit.max_file_size_bytes': [AUDIT, FILE],
  'logging.audit.backup_count': [AUDIT, FILE],
  'retention.notification_max_age_days': ['events/expiration.test.ts', AGES],
  'retention.expiration_notice_max_age_days': ['events/expiration.test.ts', AGES],
}
