/** Health objects and endpoints (docs/decisions/health-and-headers.md): rendering only, the probes run in the supervisor. */

import type { Header } from '../http/header.ts'
import type { HttpReply } from '../http/message.ts'

export type CheckStatus = 'ok' | 'error'

/** Why the CA backend is in error: words that may be read by anybody. The log has the rest. */
export type CaTrouble = 'signer not reachable' | 'CA backend unavailable'

/** The pools of all front threads together; `available` as the pressure guard counts it (`Database.pressure`). */
export interface PoolHealth {
  /** What it may grow to: connections are opened when they are needed, and closed when nobody has needed them for long. */
  max: number
  /** Open connections. */
  size: number
  available: number
  waiting: number
}

export interface HealthReport {
  checks: {
    database: { status: CheckStatus; pool: PoolHealth } | 'pool_exhausted'
    /** `stopped`: the operator has stopped all signing. `tokens` only where keys are in tokens. */
    ca_backend: {
      status: CheckStatus | 'stopped'
      tokens?: readonly { issuer: string; status: string; since: string }[]
      reason?: CaTrouble
    }
    /** Absent where no CRL is published. */
    crl?: { status: CheckStatus; stale: boolean }
    workers: { challenge: boolean; cleanup: boolean; expiration: boolean }
  }
  /** Shown by /readyz when it is the reason. */
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

/** Nothing critical may hide: workers, mail and DNS are shown and never change the status code. */
export function healthzReply(report: HealthReport, headers: readonly Header[]): HttpReply {
  const healthy = isHealthy(report)
  const { pool: _, ...shown } = report
  return jsonReply(healthy ? 200 : 503, { status: healthy ? 'ok' : 'degraded', ...shown }, headers)
}

/** Why no request should be sent here; undefined when some should. */
export function unreadiness({ checks, shutting_down }: HealthReport): string | undefined {
  const { database, ca_backend, crl } = checks
  if (database === 'pool_exhausted') return 'Connection pool exhausted'
  if (database.status !== 'ok') return 'database unavailable'
  // Stopped on purpose: clients are told so, and when to come back, by an instance that still takes their requests.
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
