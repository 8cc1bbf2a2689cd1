/** Who wants events, by the configuration: without a consumer there is no events thread. */

import type { Config } from './schema.ts'

/** `logging.audit.syslog` without a host means the daemon of this one. */
export const syslogHost = ({ audit_export, logging: { audit } }: Config) =>
  audit_export.syslog_host ?? (audit.enabled && audit.syslog ? 'localhost' : undefined)

export const wantsAuditFile = ({ logging: { audit } }: Config): boolean => audit.enabled && audit.file !== null

export const wantsAudit = (config: Config): boolean =>
  config.audit_export.webhook_url !== null || syslogHost(config) !== undefined || wantsAuditFile(config)

export function wantsEvents(config: Config): boolean {
  const { admin_api, notifications, ct_logging, hooks } = config
  const wantsHooks = hooks.registered.some(({ enabled }) => enabled)
  return admin_api.enabled || notifications.enabled || ct_logging.enabled || wantsHooks || wantsAudit(config)
}
