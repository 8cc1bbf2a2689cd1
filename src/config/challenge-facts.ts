/** The part of the section `challenges` that front threads load; the schema itself would fill megabytes in each. */

import { normalizeDnsName } from '../shared/protocol/identifier.ts'

/** Settings of a validator module without an entry in `challenges.extensions`. */
export const EXTENSION_DEFAULTS = { timeout_seconds: 10, max_retries: 3, settings: {} }

/** Most issuer domain names that a dns-persist-01 challenge may list (draft-ietf-acme-dns-persist §3.1). */
export const MAX_ISSUER_DOMAIN_NAMES = 10

/** The keys of the configuration that name this service. */
interface NamingKeys {
  challenges: { dnspersist01: { issuer_domain_names: string[] } }
  acme: { caa_identities: readonly string[] }
  server: { external_url: string }
}

/**
 * The issuer domain names of this service for dns-persist-01 records: the configured names, or else the CAA identities, which clients may publish before any challenge
 * (draft -01 §4.5).
 * The last resort is the host of `server.external_url`; empty when that is no domain name.
 */
export function issuerDomainNames({ challenges, acme, server }: NamingKeys): string[] {
  const configured = challenges.dnspersist01.issuer_domain_names
  if (configured.length > 0) return configured
  const identities = caaIdentities(acme.caa_identities)
  return identities.length > 0
    ? identities.slice(0, MAX_ISSUER_DOMAIN_NAMES)
    : normalNames([new URL(server.external_url).hostname])
}

/** The identities that are domain names, in normal form for comparison. */
export function caaIdentities(identities: readonly string[]): string[] {
  return normalNames(identities.map((name) => name.trim().replace(/\.$/, '')))
}

function normalNames(names: readonly string[]): string[] {
  const normal = names.map(normalizeDnsName).flatMap((name) => (name.ok ? [name.value] : []))
  return [...new Set(normal)]
}
