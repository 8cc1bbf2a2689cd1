/** Settings of the directory and of accounts: keys, contacts, terms, bindings, quotas. */

import type { AcmeSettings, DirectoryMeta } from '../acme/endpoint.ts'
import { issuerDomainNames } from '../config/challenge-facts.ts'
import type { Config } from '../config/schema.ts'
import { hasChoiceOfProfiles } from '../domain/certificate-profile.ts'
import { trustedProxies } from '../http/http-message.ts'
import type { AccountRulesPolicy, QuotaPolicy } from '../services/account-rules.ts'
import type { ExternalAccountPolicy } from '../services/external-accounts.ts'
import type { RegistrationPolicy } from '../services/registration.ts'
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
