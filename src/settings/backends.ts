/** Settings of backends that issue from a CSR. Their files are read here, once, at the start. */

import { readFileSync } from 'node:fs'
import type { CircuitBreakerSettings } from '../ca/circuit-breaker.ts'
import type { ExternalSettings } from '../ca/external-backend.ts'
import { signerBackend, usedBackends } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { isSigner } from '../domain/csr-issuance.ts'
import type { ReceptionPolicy } from '../services/received-certificates.ts'
import { decodePem } from '../shared/pki/pem.ts'
import { certificateProfiles } from './orders.ts'

const SECOND_MS = 1000

/** The backends that issue from a CSR and that some profile may ask. */
export function csrBackendNames({ ca }: Config): readonly string[] {
  return usedBackends(ca).filter((name) => !isSigner(name))
}

export function hasSigner({ ca }: Config): boolean {
  return signerBackend(ca) !== undefined
}

export function hasOtherBackends(config: Config): boolean {
  return csrBackendNames(config).length > 0
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

export function receptionPolicy(config: Config): ReceptionPolicy {
  const { ca } = config
  return {
    profiles: certificateProfiles(config),
    trustAnchors: new Map([
      ['external', readCertificates(ca.external.trust_anchors)],
      ['acme_proxy', readCertificates(ca.acme_proxy.trust_anchors)],
    ]),
    refusesLint: ca.received_lint === 'refuse',
  }
}

export function issuanceTimeoutSeconds({ ca }: Config): number {
  return ca.deferred_signing_timeout
}

export function breakerSettings({ ca }: Config): CircuitBreakerSettings {
  return {
    failures: ca.circuit_breaker_failure_threshold,
    recoveryMs: ca.circuit_breaker_recovery_timeout * SECOND_MS,
  }
}

export function probeIntervalMs({ ca }: Config): number {
  return ca.failover.probe_seconds * SECOND_MS
}

function readCertificates(files: readonly string[]): Buffer[] {
  return files.flatMap((file) => decodePem(readFileSync(file, 'utf8')).map(({ der }) => der))
}
