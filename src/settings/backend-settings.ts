/** Settings of the backends that every thread knows: the circuit breaker, and the signing service `external`. */

import { readFileSync } from 'node:fs'
import type { CircuitBreakerSettings } from '../ca/circuit-breaker.ts'
import type { ExternalSettings } from '../ca/external-backend.ts'
import type { Config } from '../config/schema.ts'

const SECOND_MS = 1000

export function breakerSettings({ ca }: Config): CircuitBreakerSettings {
  return {
    failures: ca.circuit_breaker_failure_threshold,
    recoveryMs: ca.circuit_breaker_recovery_timeout * SECOND_MS,
  }
}

export function externalSettings({ ca }: Config): ExternalSettings {
  const { external } = ca
  const { client_cert_path: certificate, client_key_path: key } = external
  return {
    signUrl: external.sign_url ?? '',
    revokeUrl: external.revoke_url ?? undefined,
    credential: external.auth_value === null ? undefined : { header: external.auth_header, value: external.auth_value },
    extraRoots: external.ca_cert_path === null ? undefined : readFileSync(external.ca_cert_path, 'utf8'),
    client:
      certificate === null || key === null
        ? undefined
        : { certificate: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') },
    proxyUrl: external.proxy_url ?? undefined,
    isIdempotent: external.idempotent,
    timeoutMs: external.timeout_seconds * SECOND_MS,
    maxRetries: external.max_retries,
    retryDelayMs: external.retry_delay_seconds * SECOND_MS,
  }
}
