/** How `database.max_connections` is shared out among the threads of an instance. */

import type { Config } from './schema.ts'

function wantsAudit({ audit_export, logging: { audit } }: Config): boolean {
  const isSent = audit_export.webhook_url !== null || audit_export.syslog_host !== null
  return isSent || (audit.enabled && (audit.syslog || audit.file !== null))
}

export function wantsEvents(config: Config): boolean {
  const { admin_api, notifications, ct_logging, hooks } = config
  const wantsHooks = hooks.registered.some(({ enabled }) => enabled)
  return admin_api.enabled || notifications.enabled || ct_logging.enabled || wantsHooks || wantsAudit(config)
}

/** The supervisor's pool. */
export const SUPERVISOR_POOL = 3

/** The Admin API's pool, when it is on. */
export const ADMIN_CONNECTIONS = 4

/** The pool of the events thread, when it runs. */
export const EVENTS_CONNECTIONS = 3

/** The supervisor's presence lock. */
const PRESENCE_CONNECTIONS = 1

/** More connections per front thread make batches smaller, not requests faster. */
const MAX_FRONT_CONNECTIONS = 4

/** Connections outside the front threads. */
export function otherConnections(config: Config): number {
  return (
    SUPERVISOR_POOL +
    PRESENCE_CONNECTIONS +
    (config.admin_api.enabled ? ADMIN_CONNECTIONS : 0) +
    (wantsEvents(config) ? EVENTS_CONNECTIONS : 0)
  )
}

/** Most connections of one front thread's pool; each has at least one. */
export function frontConnections(config: Config): number {
  const { database, server } = config
  const share = Math.floor((database.max_connections - otherConnections(config)) / server.workers)
  return Math.max(1, Math.min(MAX_FRONT_CONNECTIONS, share))
}
