/** Who wants events, by the configuration: without a consumer there is no events thread. */

import type { Config } from './schema.ts'

export function wantsAudit({ audit_export, logging: { audit } }: Config): boolean {
  const isSent = audit_export.webhook_url !== null || audit_export.syslog_host !== null
  return isSent || (audit.enabled && (audit.syslog || audit.file !== null))
}

export function wantsEvents(config: Config): boolean {
  const { admin_api, notifications, ct_logging, hooks } = config
  const wantsHooks = hooks.registered.some(({ enabled }) => enabled)
  return admin_api.enabled || notifications.enabled || ct_logging.enabled || wantsHooks || wantsAudit(config)
}
