/** Health objects and endpoints (doc 1, Health; decisions 25): rendering only, the probes run in the supervisor. */

import type { Header } from '../http/header.ts'
import type { HttpReply } from '../http/message.ts'

export type CheckStatus = 'ok' | 'error'

/** The pools of all front threads together; `available` as the pressure guard counts it (`Database.pressure`). */
export interface PoolHealth {
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

export function isHealthy({ checks }: HealthReport): boolean {
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

export function readyzReply(report: HealthReport, headers: readonly Header[]): HttpReply {
  const { database, ca_backend, crl } = report.checks
  const pool = database === 'pool_exhausted' ? { pool: report.pool } : {}
  const reason =
    database === 'pool_exhausted'
      ? 'Connection pool exhausted'
      : database.status !== 'ok'
        ? 'database unavailable'
        : // Stopped on purpose: clients are told so, and when to come back, by an instance that still takes their requests.
          ca_backend.status === 'error'
          ? 'CA backend unavailable'
          : crl?.status === 'error'
            ? 'CRL is stale'
            : report.shutting_down
              ? 'shutting down'
              : undefined
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
