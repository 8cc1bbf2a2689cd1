/** Settings of notifications and mail. */

import { readFileSync } from 'node:fs'
import type { Config } from '../config/schema.ts'
import type { NoticeAges } from '../store/retention-store.ts'

const SECOND_MS = 1000
/** RFC 8314 §3.3. */
const IMPLICIT_TLS_PORT = 465

/** Settings that SIGHUP changes in the events thread. */
export interface NotificationSettings {
  enabled: boolean
  disabledTypes: readonly string[]
  batchSize: number
  /** Mails in an hour, of all accounts. */
  mostToRecipient: number
  retryIntervalMs: number
  maxRetries: number
  retryDelayMs: number
  retryBackoffMultiplier: number
  retryMaxDelayMs: number
}

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

type MailTls = 'starttls' | 'implicit' | 'none'

export interface MailSettings {
  host: string
  port: number
  tls: MailTls
  /** PEM; undefined for the authorities of Node.js. */
  ca: string | undefined
  login: { user: string; pass: string } | undefined
  from: string
  cc: readonly string[]
  /** In the envelope only. */
  bcc: readonly string[]
  timeoutMs: number
  /** Names the sender in List-Id. */
  serverUrl: string
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

const DAY_MS = 86_400_000

/** Ages at which notifications, and records of warnings, are deleted. */
export function noticeAges({ retention }: Config): NoticeAges {
  const { notification_max_age_days, expiration_notice_max_age_days } = retention
  return { notificationMs: notification_max_age_days * DAY_MS, noticeMs: expiration_notice_max_age_days * DAY_MS }
}
