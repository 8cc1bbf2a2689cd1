/** Settings of other CAs: the circuit breaker, the signing service `external`, CA modules (`ext:`), and the certificates that they issue. */

import { readFileSync } from 'node:fs'
import type { ExternalSettings } from '../ca/external-backend.ts'
import type { CircuitBreakerSettings } from '../ca/guarded-backend.ts'
import { CA_METHODS, type ModuleBackendOptions } from '../ca/module/module-backend.ts'
import { keyOfBackend, usedModules } from '../config/backends.ts'
import { type CaModuleConfig, caModuleConfig } from '../config/modules.ts'
import type { Config } from '../config/schema.ts'
import type { Accepted } from '../domain/received-certificate.ts'
import type { ReceptionPolicy } from '../services/received-certificates.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { urlOfModule } from '../shared/lib/module-reference.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { decodePem } from '../shared/pki/pem.ts'
import { certificateProfiles, requireDefault } from './order-settings.ts'

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

interface CaModuleSettings extends Pick<ModuleBackendOptions, 'name' | 'module' | 'timeoutMs' | 'concurrency'> {
  /** The key that names it. */
  key: string
  /** PEM files. */
  trustAnchors: readonly string[]
  accepted: CaModuleConfig['limits']['accepted']
}

/** The settings of every module that some profile may ask. */
export function caModules({ ca }: Config): CaModuleSettings[] {
  return usedModules(ca).map((name) => {
    const { reference, limits, settings } = configOf(ca, name)
    return {
      name,
      key: keyOfBackend(ca, name),
      module: { ...reference, url: urlOfModule(reference), settings, methods: CA_METHODS },
      timeoutMs: limits.timeout_seconds * SECOND_MS,
      concurrency: limits.concurrency,
      trustAnchors: limits.trust_anchors,
      accepted: limits.accepted,
    }
  })
}

function configOf(ca: Config['ca'], name: string): CaModuleConfig {
  const read = caModuleConfig(ca, name)
  if (typeof read === 'string') throw new Error(`ca.extension_settings ${read}`)
  return read
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
