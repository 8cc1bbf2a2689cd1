/** Where audit records go: a webhook, a syslog daemon, a file. */

import { readFileSync } from 'node:fs'
import type { Config } from '../config/schema.ts'
import type { AuditFileSettings } from '../services/events/audit-file.ts'
import type { SyslogTarget } from '../services/events/syslog-sender.ts'

/** RFC 5425 §4.1. */
const SYSLOG_TLS_PORT = 6514

export const auditWebhookUrl = ({ audit_export }: Config): string | undefined => audit_export.webhook_url ?? undefined

/** Most records of one request. */
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
