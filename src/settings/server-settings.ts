/** Settings of the process: threads, database connections, URLs, and protection of the port. */

import { readFileSync } from 'node:fs'
import { connectionsFor, frontConnections } from '../config/connections.ts'
import type { Config } from '../config/schema.ts'
import { RATE_CATEGORIES, type RateCategory } from '../domain/rate-limit.ts'
import type { ProxySettings } from '../http/http-message.ts'
import type { RateLimitSettings } from '../services/rate-limiter.ts'
import type { UrlSettings } from '../shared/protocol/urls.ts'
import type { DatabaseSettings } from '../store/database.ts'

const SECOND_MS = 1000

/** @param maxConnections the supervisor's when absent */
export function databaseSettings(
  config: Config,
  maxConnections = connectionsFor(config, 'supervisor'),
): DatabaseSettings {
  const { database, server } = config
  return {
    hosts: database.host,
    port: database.port,
    database: database.database,
    user: database.user,
    password: database.password ?? '',
    sslmode: database.sslmode,
    ...(database.sslrootcert !== null && { rootCertificates: readRoots('database.sslrootcert', database.sslrootcert) }),
    maxConnections,
    minConnections: 0,
    connectionTimeoutMs: database.connection_timeout * SECOND_MS,
    idleTimeoutMs: database.max_idle_seconds * SECOND_MS,
    statementTimeoutMs: server.timeout * SECOND_MS,
  }
}

/** @throws Error in a sentence, with the key that names the file, when it cannot be read */
export function readRoots(key: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`cannot read ${key} ${file}: ${(error as NodeJS.ErrnoException).code}`)
  }
}

/** Settings of one front thread's pool. */
export function threadDatabaseSettings(config: Config): DatabaseSettings {
  const { database, server } = config
  const minConnections = Math.ceil(database.min_connections / server.workers)
  return { ...databaseSettings(config, frontConnections(config)), minConnections, requireCompared: () => true }
}

/** Settings that SIGHUP changes in a running thread. */
export interface LiveSettings {
  logLevel: Config['logging']['level']
  /** Undefined when metrics are off. */
  metricsPath: string | undefined
  rateLimits: RateLimitSettings
}

/** The keys marked `live` in the schema that have an effect in this version. */
export function liveSettings(config: Config): LiveSettings {
  const { logging, metrics } = config
  return {
    logLevel: logging.level,
    metricsPath: metrics.enabled ? metrics.path : undefined,
    rateLimits: rateLimitSettings(config),
  }
}

export function urlSettings({ server, api, acme, ari, crl }: Config): UrlSettings {
  return {
    externalUrl: server.external_url.replace(/\/$/, ''),
    basePath: api.base_path.replace(/\/$/, ''),
    paths: {
      directory: acme.paths.directory,
      newNonce: acme.paths.new_nonce,
      newAccount: acme.paths.new_account,
      newOrder: acme.paths.new_order,
      newAuthz: acme.paths.new_authz,
      revokeCert: acme.paths.revoke_cert,
      keyChange: acme.paths.key_change,
      ...(ari.enabled && { renewalInfo: ari.path }),
      ...(crl.enabled && { crl: crl.path }),
      ...(api.roots_path !== null && { roots: api.roots_path }),
    },
    directoryAliases: acme.directory_aliases,
  }
}

export function nonceLifetimeSeconds({ nonce }: Config): number {
  return Math.min(nonce.expiry_seconds, nonce.max_age_seconds ?? Number.POSITIVE_INFINITY)
}

/** How long `nonce_audit` keeps a row. */
export function nonceAuditSeconds(config: Config): number {
  return nonceLifetimeSeconds(config) + config.audit_retention.max_age_days * 86_400
}

export function overloadSettings({ server: { overload, workers } }: Config) {
  return {
    enabled: overload.enabled,
    targetDelayMs: overload.target_delay_ms,
    // A margin of 25 percent, because the system does not spread connections evenly.
    maxConnections: Math.ceil((overload.max_connections / workers) * (workers > 1 ? 1.25 : 1)),
  }
}

export function proxySettings({ proxy }: Config): ProxySettings {
  return {
    enabled: proxy.enabled,
    trustedProxies: proxy.trusted_proxies,
    forwardedForHeader: proxy.forwarded_for_header.toLowerCase(),
    forwardedProtoHeader: proxy.forwarded_proto_header.toLowerCase(),
  }
}

export function rateLimitSettings({ security }: Config): RateLimitSettings {
  const { enabled, backend, ...rules } = security.rate_limits
  const limit = (category: RateCategory) => {
    const { requests, window_seconds } = rules[category]
    return [category, { requests, windowSeconds: window_seconds }]
  }
  const categories = Object.keys(RATE_CATEGORIES) as RateCategory[]
  return { enabled, backend, limits: Object.fromEntries(categories.map(limit)) }
}
