/**
 * Whether the policy of the signer lets it sign what the profiles of the service ask for, and whether the names that may
 * be ordered may be signed: by that policy, and by the issuers' certificates.
 */

import type { IssuerConfig } from '../../../signer/config.ts'
import { configuredConstraints } from '../../../signer/subtrees.ts'
import type { CaIssuer } from '../../ca/backend.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { type CertificateProfile, SUBJECT_KEY_KINDS } from '../../domain/certificate-profile.ts'
import { crlPolicy } from '../../settings/issuance-settings.ts'
import { isIpAddress } from '../../shared/lib/host.ts'
import { checkNameConstraints } from '../../shared/pki/constrained-names.ts'
import { keyUsagesFor } from '../../shared/pki/extensions.ts'
import type { NameConstraints } from '../../shared/pki/name-constraints.ts'
import type { Check, Sources } from '../sources.ts'
import { failure, orOk, type Possible, type Verdict, warning } from '../verdict.ts'
import { NARROW, profilesOf, withSigner } from './signer.ts'

export const SIGNER_POLICY: readonly Check[] = [
  onPolicy('validity', 'The signer signs for as long as profiles say', judgeValidity),
  onPolicy('start', 'The signer signs what begins as early as the service dates certificates back', judgeStart),
  onPolicy('key-types', 'The signer signs every kind of key that profiles allow', judgeKeyTypes),
  onPolicy('usages', 'The signer signs every usage that profiles have', judgeUsages),
  onPolicy('crl', 'The signer signs lists for as long as the service makes them, at their URLs', judgeCrl),
]

type Profiles = readonly CertificateProfile[]
type PolicyJudge = (issuer: IssuerConfig, profiles: Profiles, config: Config) => Possible | readonly Possible[]

/** The policy of a signer that runs by itself. The service makes the policy of its own signer from the profiles. */
function onPolicy(id: string, title: string, judge: PolicyJudge): Check {
  return {
    id: `signer.${id}`,
    title,
    look(sources) {
      const { config } = sources
      if (!hasSigner(config) || config.ca.signer.socket === null) return undefined
      const { issuers } = sources.signerConfig()
      const found = issuers.flatMap((issuer, at) => {
        const served = profilesOf(config).filter(({ issuerIds }) =>
          issuerIds.length === 0 ? at === 0 : issuerIds.includes(issuer.id),
        )
        return judge(issuer, served, config)
      })
      return orOk(found, `${issuers.map((issuer) => issuer.id).join(', ')}: as the service asks`)
    },
  }
}

function judgeValidity({ id, policy }: IssuerConfig, profiles: Profiles): readonly Possible[] {
  const most = policy.max_validity_days
  return profiles.map(({ name, validity: { validityDays, maxValidityDays } }) => {
    const limit = `max_validity_days of the issuer ${id} is ${most}`
    if (validityDays > most)
      return failure(
        `certificates of the profile ${name} have ${validityDays} days, and ${limit}: none is signed`,
        NARROW,
      )
    return (
      maxValidityDays > most &&
      maxValidityDays > validityDays &&
      warning(
        `an order of the profile ${name} may ask for ${maxValidityDays} days (ca.max_validity_days), and ${limit}`,
        `lower the key to ${Math.floor(most)}, or widen the policy`,
      )
    )
  })
}

function judgeStart({ id, policy }: IssuerConfig, _: Profiles, { ca, order }: Config): Possible {
  const days = Math.max(ca.backdate_seconds, order.expiry_seconds) / 86_400
  if (days <= policy.max_start_offset_days) return undefined
  return warning(
    `an order may begin ${days.toFixed(1)} days from now (order.expiry_seconds, ca.backdate_seconds), and max_start_offset_days of the issuer ${id} is ${policy.max_start_offset_days}`,
    NARROW,
  )
}

function judgeKeyTypes({ id, policy }: IssuerConfig, profiles: Profiles): readonly Possible[] {
  return profiles.map(({ name, keyTypes }) => {
    const missing = keyTypes.filter((type) => !policy.key_types.includes(type))
    return (
      missing.length > 0 &&
      failure(
        `the profile ${name} takes keys ${missing.join(', ')}, and key_types of the issuer ${id} has not: such orders fail at the end`,
        `take them out of ca.profiles.${name}.key_types, or add them to key_types`,
      )
    )
  })
}

function judgeUsages({ id, policy }: IssuerConfig, profiles: Profiles): readonly Possible[] {
  return profiles.flatMap(({ name, keyUsages, extendedKeyUsages, keyTypes }) => {
    const wanted = keyTypes.flatMap((type) => keyUsagesFor(SUBJECT_KEY_KINDS[type], keyUsages))
    const missing = [
      ...[...new Set(wanted)].filter((usage) => !(policy.key_usages as readonly string[]).includes(usage)),
      ...extendedKeyUsages.filter((usage) => !policy.extended_key_usages.includes(usage)),
    ]
    const bare =
      policy.key_usage_required &&
      keyTypes.some((type) => keyUsagesFor(SUBJECT_KEY_KINDS[type], keyUsages).length === 0)
    return [
      missing.length > 0 &&
        failure(
          `certificates of the profile ${name} have ${missing.join(', ')}, which the policy of the issuer ${id} does not list: none is signed`,
          NARROW,
        ),
      bare &&
        failure(
          `certificates of the profile ${name} may have no key usage, and the issuer ${id} has key_usage_required`,
          NARROW,
        ),
    ]
  })
}

function judgeCrl({ id, policy }: IssuerConfig, _: Profiles, config: Config): readonly Possible[] {
  const { crl, ca } = config
  if (!crl.enabled && ca.crl_url === null) return []
  const days = crl.next_update_seconds / 86_400
  const url = crlPolicy(config).urlOf(id, 1, 0)
  const outside = policy.crl_urls !== undefined && !policy.crl_urls.some((base) => isBelow(url, base))
  return [
    crl.enabled &&
      days > policy.max_crl_validity_days &&
      failure(
        `lists are valid for ${days.toFixed(1)} days (crl.next_update_seconds), and max_crl_validity_days of the issuer ${id} is ${policy.max_crl_validity_days}: none is signed`,
        NARROW,
      ),
    outside &&
      failure(
        `certificates name the list ${url}, which is below none of crl_urls of the issuer ${id}: none is signed`,
        'let ca.crl_url and policy.crl_urls agree',
      ),
  ]
}

/** Both have the same scheme, host and port, and the same first folders. */
function isBelow(url: string, base: string): boolean {
  const [one, other] = [new URL(url), new URL(base)]
  const folder = other.pathname.replace(/\/$/, '')
  return one.origin === other.origin && (one.pathname === folder || one.pathname.startsWith(`${folder}/`))
}

export const SIGNER_NAMES: readonly Check[] = [
  {
    id: 'signer.names',
    title: 'Every name that may be ordered may be signed',
    look: (sources) => withSigner(sources, ({ issuers }) => judgeNames(sources.config, limitsOf(sources, issuers))),
  },
  {
    id: 'signer.own-names',
    title: 'The names of the service’s own certificate may be signed',
    look(sources) {
      const { self_issued_names: names } = sources.config.server.tls
      if (names.length === 0) return undefined
      return withSigner(sources, ({ issuers }) => {
        const limits = limitsOf(sources, issuers)
        return orOk(
          names.map((name) => {
            const refusal = refusalOfAll(name, limits)
            return (
              refusal !== undefined &&
              failure(`server.tls.self_issued_names has ${name}, which no issuer signs: ${refusal}`, NARROW)
            )
          }),
          names.join(', '),
        )
      })
    },
  },
]

/** The names that each issuer certifies: its certificates limit them, and so does the signer's policy where it is known. */
function limitsOf(sources: Sources, issuers: readonly CaIssuer[]): (readonly NameConstraints[])[] {
  const { socket } = sources.config.ca.signer
  const known = socket === null || sources.signerConfigFile === undefined ? [] : sources.signerConfig().issuers
  return issuers.map(({ id, constraints }) => {
    const policy = known.find((issuer) => issuer.id === id)?.policy
    return policy ? [...constraints, configuredConstraints(policy)] : constraints
  })
}

/** @returns why the first issuer does not sign the name, where none does */
function refusalOfAll(name: string, limits: readonly (readonly NameConstraints[])[]): string | undefined {
  const kind = isIpAddress(name) ? ('iPAddress' as const) : ('dNSName' as const)
  const refusals = limits.map((one) =>
    checkNameConstraints({ subject: [], subjectAltNames: [{ kind, value: name }] }, one),
  )
  return refusals.includes(undefined) ? undefined : refusals[0]
}

function judgeNames({ security }: Config, limits: readonly (readonly NameConstraints[])[]): readonly Verdict[] {
  const key = 'security.identifier_policy.allowed_domains'
  const { allowed_domains: allowed, allow_ip } = security.identifier_policy
  const isLimited = limits.some((one) => one.some(({ permitted }) => permitted.dns !== undefined))
  if (allowed.length === 0 && isLimited && limits.length > 0)
    return [
      warning(
        `every name may be ordered, and the signer signs only some: such orders fail at the end, after their validation`,
        `list the same names in ${key} as the policy of the signer and the name constraints of the issuer permit`,
      ),
    ]
  const names = allowed.map((pattern) => pattern.replace(/^\*\./, 'any.'))
  const refused = names.map((name) => {
    const refusal = refusalOfAll(name, limits)
    return (
      refusal !== undefined &&
      failure(
        `${key} has ${name.replace(/^any\./, '*.')}, and no issuer signs it: ${refusal}`,
        `take it out, or permit it in policy.permitted of the signer; where the issuer's certificate has name constraints, only a new issuer can`,
      )
    )
  })
  const isIpRefused =
    allow_ip && limits.length > 0 && limits.every((one) => one.some(({ permitted }) => permitted.ip?.length === 0))
  const addresses =
    isIpRefused &&
    failure(
      'addresses may be ordered (allow_ip), and no issuer signs any',
      'set security.identifier_policy.allow_ip: false, or permit networks',
    )
  return orOk([...refused, addresses], allowed.length === 0 ? 'nothing limits them' : `${allowed.length} patterns`)
}
