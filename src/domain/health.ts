/** The health of an instance as its endpoints show it (docs/decisions/health-and-headers.md). Pure. */

export type CheckStatus = 'ok' | 'error'

/**
 * Why the CA backend fails, in words that anyone may read. Details go to the log.
 * The connection counts as lost, and not yet as unreachable, while the signer may be restarting.
 */
export type CaTrouble = 'signer connection lost' | 'signer not reachable' | 'CA backend unavailable'

/** It answers, and cannot write: no room, or a disk that is read-only, over its quota or broken. */
export type DatabaseTrouble = 'database disk full' | 'database disk failing'

/** The pools of all front threads together. `available` counts as the pressure guard does (`Database.pressure`). */
interface PoolHealth {
  /** The maximum. Connections open on demand and close after long disuse. */
  max: number
  /** Open connections. */
  size: number
  available: number
  waiting: number
}

export interface HealthReport {
  checks: {
    database: { status: CheckStatus; pool: PoolHealth; reason?: DatabaseTrouble } | 'pool_exhausted'
    /** `stopped` means that the operator has stopped all signing. `tokens` appears only with token keys. */
    ca_backend: {
      status: CheckStatus | 'stopped'
      tokens?: readonly { issuer: string; status: string; since: string }[]
      reason?: CaTrouble
      /** Present with other backends beside the signer, or in its place. */
      backends?: Readonly<Record<string, { status: CheckStatus | 'stopped' }>>
    }
    /** Absent when no CRL is published. */
    crl?: { status: CheckStatus; stale: boolean }
    /** `error` while the database lacks what the signer has recorded, another one uses the signer, or it has given some up that nobody accepted. Absent when no certificate is signed here. */
    signer_records?: { status: CheckStatus; given_up?: number }
    /** Absent without `dns.resolvers`. */
    dns_resolver?: { status: CheckStatus }
    /** `error`: the end of the administrators' audit log was cut or changed. Absent without Admin API. */
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

export function isHealthy({ checks }: HealthReport): boolean {
  const { database, ca_backend, crl, signer_records } = checks
  const isDatabaseUp = database !== 'pool_exhausted' && database.status === 'ok'
  return [isDatabaseUp, ca_backend.status === 'ok', crl?.status !== 'error', signer_records?.status !== 'error'].every(
    Boolean,
  )
}

/** @returns why the instance should get no requests, or undefined when it is ready */
export function unreadiness({ checks, shutting_down }: HealthReport): string | undefined {
  const { database, ca_backend, crl } = checks
  if (database === 'pool_exhausted') return 'Connection pool exhausted'
  if (database.status !== 'ok') return database.reason ?? 'database unavailable'
  // `stopped` stays ready: clients still get a reply that says when to return. A signer that restarts is waited for, and
  // a balancer would take out every instance that it serves.
  if (ca_backend.status === 'error' && ca_backend.reason !== 'signer connection lost')
    return ca_backend.reason ?? 'CA backend unavailable'
  if (crl?.status === 'error') return 'CRL is stale'
  return shutting_down ? 'shutting down' : undefined
}
