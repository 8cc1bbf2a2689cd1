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

/** Connections of an instance that no front thread has, and what each part takes when there are few. */
const SHARES = {
  supervisor: { most: 3, least: 2 },
  /** The lock by which others know that the instance lives. */
  presence: { most: 1, least: 1 },
  admin: { most: 4, least: 2 },
  events: { most: 3, least: 2 },
} as const
type Share = keyof typeof SHARES

/** More connections per front thread make batches smaller, not requests faster. */
const MAX_FRONT_CONNECTIONS = 4

const sharesOf = (config: Config): Share[] => [
  'supervisor',
  'presence',
  ...(config.admin_api.enabled ? ['admin' as const] : []),
  ...(wantsEvents(config) ? ['events' as const] : []),
]

function otherConnections(config: Config, size: 'most' | 'least'): number {
  return sharesOf(config).reduce((sum, share) => sum + SHARES[share][size], 0)
}

/** Fewer than these, and the parts have their least. */
const plenty = (config: Config): number => 2 * config.server.workers + otherConnections(config, 'most')

const sizeFor = (config: Config) => (config.database.max_connections < plenty(config) ? 'least' : 'most')

/** The instance opens these even where fewer are allowed: one for each front thread, and the least of the others. */
export function leastConnections(config: Config): { all: number; others: number } {
  const others = otherConnections(config, 'least')
  return { all: config.server.workers + others, others }
}

/** Most connections of the pool of one part. */
export function connectionsFor(config: Config, share: Exclude<Share, 'presence'>): number {
  return SHARES[share][sizeFor(config)]
}

/** Most connections of one front thread's pool; each has at least one. */
export function frontConnections(config: Config): number {
  const { database, server } = config
  const share = Math.floor((database.max_connections - otherConnections(config, sizeFor(config))) / server.workers)
  return Math.max(1, Math.min(MAX_FRONT_CONNECTIONS, share))
}
