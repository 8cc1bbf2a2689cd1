/** Settings of the events thread, and of what it tells others: audit records, transparency logs, notifications and mail. */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connectionsFor } from '../config/connections.ts'
import type { Config } from '../config/schema.ts'
import type { AuditFileSettings, AuditWebhook } from '../events/audit-consumers.ts'
import type { MailerPolicy } from '../events/notifications/mailer.ts'
import type { RecordingPolicy } from '../events/notifications/notification-consumer.ts'
import type { MailSettings } from '../events/notifications/transport.ts'
import type { SyslogTarget } from '../events/syslog-sender.ts'
import type { TransparencyLog } from '../events/transparency.ts'
import type { DatabaseSettings } from '../store/database.ts'
import type { NoticeAges } from '../store/retention-store.ts'
import { databaseSettings, readRoots } from './server-settings.ts'

const SECOND_MS = 1000
const DAY_MS = 86_400_000
/** RFC 8314 §3.3. */
const IMPLICIT_TLS_PORT = 465

/** SIGHUP changes these in the events thread. */
export type NotificationSettings = MailerPolicy & RecordingPolicy

export function notificationSettings({ notifications }: Config): NotificationSettings {
  const { enabled, disabled_types, batch_size, retry_interval_seconds, max_retries } = notifications
  const { retry_delay_seconds, retry_backoff_multiplier, retry_max_delay_seconds, max_per_recipient_per_hour } =
    notifications
  return {
    enabled,
    disabledTypes: disabled_types,
    batchSize: batch_size,
    mostToRecipient: max_per_recipient_per_hour,
    retryIntervalMs: retry_interval_seconds * SECOND_MS,
    maxRetries: max_retries,
    retryDelayMs: retry_delay_seconds * SECOND_MS,
    retryBackoffMultiplier: retry_backoff_multiplier,
    retryMaxDelayMs: retry_max_delay_seconds * SECOND_MS,
  }
}

/** @throws Error when the file of the authorities cannot be read */
export function mailSettings({ smtp, server }: Config): MailSettings {
  const { host, port, username, password, use_tls, tls, ca_file, from_address, cc, bcc, timeout_seconds } = smtp
  return {
    host: host ?? '',
    port,
    tls: tls ?? (!use_tls ? 'none' : port === IMPLICIT_TLS_PORT ? 'implicit' : 'starttls'),
    ca: ca_file === null ? undefined : readAuthorities(ca_file),
    login: username === null ? undefined : { user: username, pass: password ?? '' },
    from: from_address ?? '',
    cc,
    bcc,
    timeoutMs: timeout_seconds * SECOND_MS,
    serverUrl: server.external_url,
  }
}

function readAuthorities(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`smtp.ca_file: ${(cause as Error).message}`, { cause })
  }
}

/** The operator's templates of mails. */
export const templatesPath = ({ smtp }: Config) => smtp.templates_path

/** Settings that SIGHUP changes in the expiration worker. */
interface ExpirationSettings {
  enabled: boolean
  warningDays: readonly number[]
  intervalMs: number
}

export function expirationSettings({ notifications }: Config): ExpirationSettings {
  const { enabled, expiration_warning_days, expiration_check_interval_seconds } = notifications
  return {
    enabled: enabled && expiration_warning_days.length > 0,
    warningDays: expiration_warning_days,
    intervalMs: expiration_check_interval_seconds * SECOND_MS,
  }
}

/** Ages at which notifications, and records of warnings, are deleted. */
export function noticeAges({ retention }: Config): NoticeAges {
  const { notification_max_age_days, expiration_notice_max_age_days } = retention
  return { notificationMs: notification_max_age_days * DAY_MS, noticeMs: expiration_notice_max_age_days * DAY_MS }
}

export function eventsDatabaseSettings(config: Config): DatabaseSettings {
  return { ...databaseSettings(config, connectionsFor(config, 'events')), requireCompared: () => true }
}

/** RFC 5425 §4.1. */
const SYSLOG_TLS_PORT = 6514

/** @returns undefined where no webhook is configured */
export function auditWebhook({ audit_export }: Config): AuditWebhook | undefined {
  const { webhook_url: url, webhook_batch: batch, webhook_allow_private: allowPrivate } = audit_export
  return url === null ? undefined : { url, batch, allowPrivate }
}

/** `logging.audit.syslog` without a host means the daemon of this one. */
const syslogHost = ({ audit_export, logging: { audit } }: Config) =>
  audit_export.syslog_host ?? (audit.enabled && audit.syslog ? 'localhost' : undefined)

/** @throws Error in a sentence when the CA file cannot be read */
export function syslogTarget(config: Config): SyslogTarget | undefined {
  const { syslog_port: port, syslog_transport, syslog_ca_file } = config.audit_export
  const host = syslogHost(config)
  if (host === undefined) return undefined
  const transport = syslog_transport ?? (port === SYSLOG_TLS_PORT ? 'tls' : 'udp')
  return {
    host,
    port,
    transport,
    ca: syslog_ca_file === null ? undefined : readRoots('audit_export.syslog_ca_file', syslog_ca_file),
  }
}

export function auditFile({ logging: { audit } }: Config): AuditFileSettings | undefined {
  if (!audit.enabled || audit.file === null) return undefined
  return { path: audit.file, maxBytes: audit.max_file_size_bytes, backups: audit.backup_count }
}

/** @throws Error in a sentence when a key cannot be read */
export function transparencyLogs({ ct_logging }: Config): TransparencyLog[] {
  if (!ct_logging.enabled) return []
  return ct_logging.logs.map(({ url, public_key_path, timeout_seconds }) => ({
    url: url.replace(/\/+$/, ''),
    key: public_key_path === null ? undefined : readKey(public_key_path),
    timeoutMs: timeout_seconds * 1000,
  }))
}

function readKey(file: string): KeyObject {
  try {
    return createPublicKey(readFileSync(file))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Error(`ct_logging.logs: cannot read a public key from ${file}: ${code ?? message}`)
  }
}
