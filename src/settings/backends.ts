/** Settings of backends that issue from a CSR. Their files are read here, once, at the start. */

import { readFileSync } from 'node:fs'
import type { CircuitBreakerSettings } from '../ca/circuit-breaker.ts'
import type { ExternalSettings } from '../ca/external-backend.ts'
import { signerBackend, usedBackends } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { isSigner } from '../domain/csr-issuance.ts'
import type { Accepted } from '../domain/received-certificate.ts'
import type { ReceptionPolicy } from '../services/received-certificates.ts'
import { describeFileError } from '../shared/lib/file-error.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { decodePem } from '../shared/pki/pem.ts'
import { caModules } from './ca-module.ts'
import { certificateProfiles, requireDefault } from './orders.ts'

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
  const profiles = certificateProfiles(config)
  return {
    profiles,
    defaultProfile: requireDefault(profiles),
    policyOids: ca.policy_oids,
    accepted: new Map([
      ['external', acceptedBy(ca.external.accepted)],
      ['acme_proxy', acceptedBy(ca.acme_proxy.accepted)],
      ...caModules(config).map(({ name, accepted }): [string, Accepted] => [name, acceptedBy(accepted)]),
    ]),
    trustAnchors: new Map([
      ['external', readAnchors('ca.external.trust_anchors', ca.external.trust_anchors)],
      ['acme_proxy', readAnchors('ca.acme_proxy.trust_anchors', ca.acme_proxy.trust_anchors)],
      ...caModules(config).map(({ name, trustAnchors }): [string, Buffer[]] => [
        name,
        readAnchors('ca.extension_settings.trust_anchors', trustAnchors),
      ]),
    ]),
    refusesLint: ca.received_lint === 'refuse',
  }
}

function acceptedBy(accepted: Config['ca']['external']['accepted']): Accepted {
  return {
    subjectAttributes: accepted.subject_attributes,
    keyPurposes: accepted.key_purposes,
    extensions: accepted.extensions,
    policyOids: accepted.policy_oids,
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

/** Without an anchor every chain passes, so a file must have one. @throws Error in a sentence */
function readAnchors(key: string, files: readonly string[]): Buffer[] {
  return files.flatMap((file) => {
    try {
      const blocks = decodePem(readFileSync(file, 'utf8'))
      const other = blocks.find(({ label }) => label !== 'CERTIFICATE')
      if (other || blocks.length === 0) throw new Error(`it has ${other ? `a ${other.label}` : 'no certificate'}`)
      for (const { der } of blocks) parseCertificate(der)
      return blocks.map(({ der }) => der)
    } catch (error) {
      throw new Error(`${key}: ${file} cannot be used: ${describeFileError(error)}`)
    }
  })
}
