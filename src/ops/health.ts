/**
 * Renders health objects and endpoints (docs/decisions/health-and-headers.md). The supervisor runs
 * the probes.
 */

import { Resolver } from 'node:dns/promises'
import type { Header, HttpReply } from '../http/message.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'

export type CheckStatus = 'ok' | 'error'

/** Why the CA backend fails, in words that anyone may read. Details go to the log. */
export type CaTrouble = 'signer not reachable' | 'CA backend unavailable'

/**
 * The pools of all front threads together. `available` counts as the pressure guard does
 * (`Database.pressure`).
 */
export interface PoolHealth {
  /** The maximum. Connections open on demand and close after long disuse. */
  max: number
  /** Open connections. */
  size: number
  available: number
  waiting: number
}

export interface HealthReport {
  checks: {
    database: { status: CheckStatus; pool: PoolHealth } | 'pool_exhausted'
    /**
     * `stopped` means that the operator has stopped all signing. `tokens` appears only with token
     * keys.
     */
    ca_backend: {
      status: CheckStatus | 'stopped'
      tokens?: readonly { issuer: string; status: string; since: string }[]
      reason?: CaTrouble
      /** With other backends beside the signer, or in its place. */
      backends?: Readonly<Record<string, { status: CheckStatus | 'stopped' }>>
    }
    /** Absent when no CRL is published. */
    crl?: { status: CheckStatus; stale: boolean }
    /** Absent without `dns.resolvers`. */
    dns_resolver?: { status: CheckStatus }
    /**
     * `error`: the end of the administrators' audit log was cut or changed. Absent without Admin
     * API.
     */
    audit_log?: { status: CheckStatus }
    /** Absent when no mail is sent. */
    smtp?: { status: CheckStatus }
    workers: {
      challenge: boolean
      cleanup: boolean
      /** Whether certificates that expire are warned of: false, too, where the settings ask for no warning. */
      expiration: boolean
      /** Tasks of all instances; absent when the database does not answer. */
      tasks?: Readonly<Record<string, { leader: number; last_run: string; next_run: string; errors: number }>>
    }
    /** Consumers of events; absent when there are none. One that is behind is a warning. */
    events?: {
      status: 'ok' | 'behind'
      consumers: Readonly<Record<string, { waiting: number; oldest_seconds: number }>>
    }
  }
  /** /readyz shows it when the pool is the reason. */
  pool: PoolHealth
  maintenance_mode: boolean
  shutting_down: boolean
}

function isHealthy({ checks }: HealthReport): boolean {
  const { database, ca_backend, crl } = checks
  return (
    database !== 'pool_exhausted' && database.status === 'ok' && ca_backend.status === 'ok' && crl?.status !== 'error'
  )
}

export function livezReply(version: string, headers: readonly Header[]): HttpReply {
  return jsonReply(200, { alive: true, version }, headers)
}

/**
 * Shows everything except the pool. Workers, mail, name servers and the audit log never change the
 * status code.
 */
export function healthzReply(report: HealthReport, headers: readonly Header[]): HttpReply {
  const healthy = isHealthy(report)
  const { pool: _, ...shown } = report
  return jsonReply(healthy ? 200 : 503, { status: healthy ? 'ok' : 'degraded', ...shown }, headers)
}

/** @returns why the instance should get no requests, or undefined when it is ready */
export function unreadiness({ checks, shutting_down }: HealthReport): string | undefined {
  const { database, ca_backend, crl } = checks
  if (database === 'pool_exhausted') return 'Connection pool exhausted'
  if (database.status !== 'ok') return 'database unavailable'
  // `stopped` stays ready: clients still get a reply that says when to return.
  if (ca_backend.status === 'error') return ca_backend.reason ?? 'CA backend unavailable'
  if (crl?.status === 'error') return 'CRL is stale'
  return shutting_down ? 'shutting down' : undefined
}

export function readyzReply(report: HealthReport, headers: readonly Header[]): HttpReply {
  const reason = unreadiness(report)
  const pool = report.checks.database === 'pool_exhausted' ? { pool: report.pool } : {}
  return reason === undefined
    ? jsonReply(200, { ready: true }, headers)
    : jsonReply(503, { ready: false, reason, ...pool }, headers)
}

function jsonReply(status: number, body: object, headers: readonly Header[]): HttpReply {
  return {
    status,
    headers: [['Content-Type', 'application/json'], ['Cache-Control', 'no-store'], ...headers],
    body: JSON.stringify(body),
  }
}

/** Whether a name server of validation answers: asked in the background, because anyone may ask for health. */
const INTERVAL_MS = 10_000
const TIMEOUT_MS = 2_000

/** Any answer shows that it is there, also one that refuses. */
const ANSWERS = new Set(['ENODATA', 'ENOTFOUND', 'ESERVFAIL', 'EREFUSED', 'EFORMERR', 'ENOTIMP'])

interface ResolverCheck {
  status(): CheckStatus
  stop(): Promise<void>
}

/** @param servers `dns.resolvers`; one that answers is enough */
export function startResolverCheck(servers: readonly string[]): ResolverCheck {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: 1 })
  resolver.setServers(servers)
  let status: CheckStatus = 'ok'
  const loop: Loop = startLoop({
    name: 'dns resolver',
    intervalMs: INTERVAL_MS,
    async round() {
      status = (await isAnswering(resolver)) ? 'ok' : 'error'
    },
    onError: () => undefined,
  })
  return {
    status: () => status,
    async stop() {
      resolver.cancel()
      await loop.stop()
    },
  }
}

/** The root's name servers are what every resolver knows. */
function isAnswering(resolver: Resolver): Promise<boolean> {
  return resolver.resolveNs('.').then(
    () => true,
    (error: NodeJS.ErrnoException) => ANSWERS.has(error.code ?? ''),
  )
}
