/**
 * The names of this service in the records of dns-persist-01 (draft-ietf-acme-dns-persist §3.1).
 */

import { normalizeDnsName } from '../shared/protocol/identifier.ts'
import type { Config } from './schema.ts'
import { MAX_ISSUER_DOMAIN_NAMES } from './sections/challenges.ts'

/**
 * What is configured; else the identities of CAA, which clients may publish before they have seen a
 * challenge (draft -01 §4.5); else the host of `server.external_url`. Empty when that is no domain
 * name.
 */
export function issuerDomainNames({ challenges, acme, server }: Config): string[] {
  const configured = challenges.dnspersist01.issuer_domain_names
  if (configured.length > 0) return configured
  const identities = caaIdentities(acme.caa_identities)
  return identities.length > 0
    ? identities.slice(0, MAX_ISSUER_DOMAIN_NAMES)
    : normalNames([new URL(server.external_url).hostname])
}

/** Those that are domain names, in the form that names are compared in. */
export function caaIdentities(identities: readonly string[]): string[] {
  return normalNames(identities.map((name) => name.trim().replace(/\.$/, '')))
}

function normalNames(names: readonly string[]): string[] {
  const normal = names.map(normalizeDnsName).flatMap((name) => (name.ok ? [name.value] : []))
  return [...new Set(normal)]
}
