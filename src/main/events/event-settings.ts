/** Settings of the events thread: its database, where audit records go, the transparency logs. */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connectionsFor } from '../../config/connections.ts'
import type { Config } from '../../config/schema.ts'
import type { AuditFileSettings } from '../../events/audit-consumers.ts'
import type { SyslogTarget } from '../../events/syslog-sender.ts'
import type { TransparencyLog } from '../../events/transparency.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import type { DatabaseSettings } from '../../store/database.ts'

export function eventsDatabaseSettings(config: Config): DatabaseSettings {
  return { ...databaseSettings(config, connectionsFor(config, 'events')), requireCompared: () => true }
}

/** RFC 5425 §4.1. */
const SYSLOG_TLS_PORT = 6514

export const auditWebhookUrl = ({ audit_export }: Config): string | undefined => audit_export.webhook_url ?? undefined

export const auditWebhookAllowsPrivate = ({ audit_export }: Config): boolean => audit_export.webhook_allow_private

export const auditWebhookBatch = ({ audit_export }: Config): number => audit_export.webhook_batch

/** `logging.audit.syslog` without a host means the daemon of this one. */
const syslogHost = ({ audit_export, logging: { audit } }: Config) =>
  audit_export.syslog_host ?? (audit.enabled && audit.syslog ? 'localhost' : undefined)

/** @throws Error in a sentence when the CA file cannot be read */
export function syslogTarget(config: Config): SyslogTarget | undefined {
  const { syslog_port: port, syslog_transport, syslog_ca_file } = config.audit_export
  const host = syslogHost(config)
  if (host === undefined) return undefined
  const transport = syslog_transport ?? (port === SYSLOG_TLS_PORT ? 'tls' : 'udp')
  return { host, port, transport, ca: syslog_ca_file === null ? undefined : readCa(syslog_ca_file) }
}

function readCa(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`cannot read audit_export.syslog_ca_file ${file}: ${(error as NodeJS.ErrnoException).code}`)
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
