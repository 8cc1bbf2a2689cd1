/** Settings of certificates: issuance, renewal, CRLs, and roots. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { CaBackend } from '../ca/backend.ts'
import type { Config } from '../config/schema.ts'
import { DEFAULT_PROFILE } from '../domain/certificate-profile.ts'
import { crlName, shardOf } from '../domain/crl-scope.ts'
import type { CrlPolicy } from '../services/crl/crl-builder.ts'
import type { FinalizePolicy } from '../services/finalization.ts'
import type { IssuancePolicy } from '../services/issuance.ts'
import type { RenewalPolicy } from '../services/renewal.ts'
import { readRootsPem } from '../services/trust-bundle.ts'
import { keysOf } from '../shared/lib/encoding.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { CURVES } from '../shared/pki/algorithms.ts'
import type { EnabledMethod } from '../shared/protocol/challenge.ts'
import { Urls } from '../shared/protocol/urls.ts'
import { certificateProfiles, identifierPolicy, issuerIdsOf } from './order-settings.ts'
import { urlSettings } from './server-settings.ts'

const SECOND_MS = 1000
const HTTP_PORT = 80

export function issuancePolicy(config: Config, enabled: readonly EnabledMethod[]): IssuancePolicy & FinalizePolicy {
  const { security, ca, order, server } = config
  return {
    csr: {
      signatureAlgorithms: security.allowed_csr_signature_algorithms,
      key: {
        rsaMinBits: security.min_csr_rsa_key_size,
        // RSA limit from docs/decisions/subject-keys.md.
        rsaMaxBits: 8192,
        curves: keysOf(CURVES).filter((curve) => CURVES[curve].bits >= security.min_csr_ec_key_size),
        ed25519: true,
      },
    },
    identifiers: identifierPolicy(config, enabled),
    profiles: certificateProfiles(config),
    caIssuersUrls: ca.aia_issuer_urls,
    policyOids: ca.policy_oids,
    crlUrl: certificateCrlUrl(config),
    // After this wait the order is `processing`, well before `server.timeout`.
    finalizeWaitMs: Math.min(order.finalize_wait_ms, (server.timeout * SECOND_MS) / 2),
    signTimeoutMs: ca.signer.timeout_seconds * SECOND_MS,
  }
}

export function renewalPolicy({ ari }: Config): RenewalPolicy {
  return {
    renewalPercentage: ari.renewal_percentage,
    revokedWindowSeconds: ari.revoked_window_seconds ?? undefined,
    maxRetryAfterSeconds: ari.max_retry_after_seconds,
  }
}

/** A certificate may outlive the configuration that issued it by this much. */
const CRL_MARGIN_DAYS = 31

/** For a build on a busy machine. */
const CRL_GRACE_MS = 60_000

export function crlPolicy(config: Config): CrlPolicy {
  const { crl, ca } = config
  return {
    intervalMs: crl.schedule === null ? crl.rebuild_interval_seconds * SECOND_MS : undefined,
    lifetimeMs: crl.next_update_seconds * SECOND_MS,
    hash: crl.hash_algorithm ?? undefined,
    shards: crl.shards,
    complete: crl.complete,
    maxValidityDays: ca.max_validity_days + CRL_MARGIN_DAYS,
    urlOf: crlUrls(config),
    signTimeoutMs: ca.signer.timeout_seconds * SECOND_MS,
  }
}

/**
 * Age at which the Admin API calls a list stale; undefined when no CRL is published. By a schedule,
 * the list's own end decides.
 */
export function staleCrlAfterMs(config: Config): number | undefined {
  if (!config.crl.enabled) return undefined
  const { intervalMs, lifetimeMs } = crlPolicy(config)
  return intervalMs === undefined ? lifetimeMs : 2 * intervalMs + CRL_GRACE_MS
}

/** The issuer of the default profile; the bare `crl.path` serves its list. */
export function defaultIssuerId({ ca: { profiles } }: Config, ca: Pick<CaBackend, 'issuers'>): string | undefined {
  return issuerIdsOf(profiles[DEFAULT_PROFILE]?.issuer ?? null)[0] ?? ca.issuers()[0]?.id
}

/** Text of `api.roots_file`; empty without one. @throws Error in a sentence when it has something else than roots */
export function furtherRootsPem({ api: { roots_file: file } }: Config): string {
  if (file === null) return ''
  try {
    const pem = readFileSync(path.resolve(file), 'utf8')
    if (readRootsPem(pem).length === 0) throw new Error('it has no certificate')
    return pem
  } catch (error) {
    throw new Error(`api.roots_file: ${file} cannot be used: ${describeFileError(error)}`, { cause: error })
  }
}

/** The URL of a list, on this server or at the operator's `ca.crl_url`. */
function crlUrls(config: Config): CrlPolicy['urlOf'] {
  const { crl_url: elsewhere } = config.ca
  const urls = new Urls(urlSettings(config))
  return (issuerId, shards, shard) => {
    const name = crlName(issuerId, { shards, shard })
    return elsewhere?.replaceAll('{crl}', name) ?? overHttp(urls.crl(name) ?? '', config.crl.http_port)
  }
}

function overHttp(url: string, port: number | null): string {
  if (port === null || url === '') return url
  const { hostname, pathname } = new URL(url)
  return `http://${hostname}${port === HTTP_PORT ? '' : `:${port}`}${pathname}`
}

/** The CRL distribution point of a certificate, if it gets one. */
function certificateCrlUrl(config: Config): IssuancePolicy['crlUrl'] {
  const { crl, ca } = config
  if (!crl.enabled && ca.crl_url === null) return undefined
  const urlOf = crlUrls(config)
  const shards = crl.enabled ? crl.shards : 1
  return (issuerId, serialNumber) => urlOf(issuerId, shards, shards === 1 ? 0 : shardOf(serialNumber, shards))
}
