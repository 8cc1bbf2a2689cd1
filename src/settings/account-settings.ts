/** Settings of the directory and of accounts: keys, contacts, terms, bindings with the secret of their keys, quotas. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { AcmeSettings, DirectoryMeta } from '../acme/endpoint.ts'
import { issuerDomainNames } from '../config/challenge-facts.ts'
import type { Config } from '../config/schema.ts'
import { hasChoiceOfProfiles } from '../domain/certificate-profile.ts'
import { trustedProxies } from '../http/http-message.ts'
import type { AccountRulesPolicy } from '../services/account-rules.ts'
import type { ExternalAccountPolicy } from '../services/external-accounts.ts'
import type { QuotaPolicy } from '../services/rate-limiter.ts'
import type { RegistrationPolicy } from '../services/registration.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { createSecretBox, type SecretBox, secretIn, withoutLineEnds } from '../shared/lib/secret-box.ts'
import type { AccountKeyPolicy } from '../shared/protocol/jwk.ts'
import { Urls } from '../shared/protocol/urls.ts'
import { proxySettings, urlSettings } from './server-settings.ts'

export function acmeSettings(config: Config): AcmeSettings {
  const { security, acme, order, challenges } = config
  return {
    algorithms: security.allowed_algorithms,
    accountKeys: accountKeyPolicy(config),
    directoryMeta: directoryMeta(config),
    dnsPersist: { issuerDomainNames: issuerDomainNames(config), draft: challenges.dnspersist01.draft },
    orderRetryAfterSeconds: order.retry_after_seconds,
    challengeRetryAfterSeconds: challenges.retry_after_seconds,
    ordersPageSize: acme.orders_page_size,
  }
}

function accountKeyPolicy({ security }: Config): AccountKeyPolicy {
  return {
    minRsaBits: security.min_rsa_key_size,
    maxRsaBits: security.max_rsa_key_size,
    curves: security.allowed_ec_curves,
  }
}

function directoryMeta(config: Config): DirectoryMeta {
  const { tos, acme, ca } = config
  const profiles = new Map(Object.entries(ca.profiles))
  return {
    ...(tos.url && { termsOfService: tos.url }),
    ...(acme.website_url && { website: acme.website_url }),
    ...(acme.caa_identities.length > 0 && { caaIdentities: acme.caa_identities }),
    externalAccountRequired: acme.eab_required,
    ...(hasChoiceOfProfiles(profiles) && {
      profiles: Object.fromEntries([...profiles].map(([name, { description }]) => [name, description ?? ''])),
    }),
    ...persistMeta(config),
  }
}

function persistMeta(config: Config): Pick<DirectoryMeta, 'issuerDomainNames' | 'accountHashPrefix'> {
  const { enabled, dnspersist01 } = config.challenges
  if (!enabled.includes('dns-persist-01') || dnspersist01.draft === '01') return {}
  const { accountHashPrefix } = new Urls(urlSettings(config))
  return { issuerDomainNames: issuerDomainNames(config), accountHashPrefix }
}

export function registrationPolicy({ email, tos, account }: Config): RegistrationPolicy {
  return {
    contacts: { required: email.require_contact, allowedDomains: email.allowed_domains },
    termsUrl: tos.url ?? undefined,
    termsRequired: tos.require_agreement,
    termsVersion: tos.version ?? undefined,
    termsInstructionsUrl: tos.instructions_url ?? tos.url ?? undefined,
    allowContactUpdate: account.allow_contact_update,
    allowDeactivation: account.allow_deactivation,
  }
}

export function externalAccountPolicy(config: Config): ExternalAccountPolicy {
  const { eab_required: required, eab_reusable: reusable } = config.acme
  const isTrustedProxy = trustedProxies(proxySettings(config))
  return { required, reusable, accountKeys: accountKeyPolicy(config), isTrustedProxy }
}

export function accountRulesPolicy({ security }: Config): AccountRulesPolicy {
  return {
    enforceAllowlist: security.identifier_policy.enforce_account_allowlist,
    requireCsrProfile: security.require_csr_profile,
  }
}

export function quotaPolicy({ quotas }: Config): QuotaPolicy {
  return {
    orders: quotas.enabled ? quotas.max_orders_per_account_per_day : 0,
    certificates: quotas.enabled ? quotas.max_certificates_per_account_per_day : 0,
  }
}

/** A shorter file is a mistake, such as a truncated file or a password. */
const MIN_EAB_SECRET_BYTES = 32

/**
 * Seals the HMAC keys of binding credentials; undefined when no secret is configured.
 *
 * @throws Error when the file cannot be read or is too short
 */
export function eabSecretBox({ acme, admin_api }: Config): SecretBox | undefined {
  const secret = acme.eab_key_file === null ? admin_api.token_secret : namedEabSecret(acme.eab_key_file)
  return secret === null ? undefined : boxOf(secret)
}

/** The box over a secret that is not in the configuration. */
export const boxOf = (secret: string | Buffer) => createSecretBox(secret, 'chancery: HMAC keys of binding credentials')

/**
 * Boxes of a former secret: with every byte, and as a text without the line end that an editor leaves.
 *
 * @throws Error in one sentence when the file cannot be read or is empty
 */
export function formerEabBoxes(file: string): SecretBox[] {
  const whole = readSecretFile(file)
  const line = withoutLineEnds(whole.toString('utf8'))
  if (line === '') throw new Error(`${file} is empty`)
  return [boxOf(whole), boxOf(line)]
}

function namedEabSecret(file: string): Buffer {
  try {
    return readEabSecret(path.resolve(file))
  } catch (cause) {
    throw new Error(`acme.eab_key_file: ${(cause as Error).message}`, { cause })
  }
}

/** @throws Error in one sentence when it cannot be read or is too short */
export function readEabSecret(file: string): Buffer {
  const secret = secretIn(readSecretFile(file))
  if (secret.length >= MIN_EAB_SECRET_BYTES) return secret
  throw new Error(`${file} has ${secret.length} bytes; it needs at least ${MIN_EAB_SECRET_BYTES}`)
}

function readSecretFile(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
}
