/** The signer: whether it can sign, and whether its policy lets it sign what the service is set up to ask for. */

import type { IssuerConfig } from '../../../signer/config.ts'
import { configuredConstraints } from '../../../signer/subtrees.ts'
import type { CaIssuer } from '../../ca/backend.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { type CertificateProfile, SUBJECT_KEY_KINDS } from '../../domain/certificate-profile.ts'
import { crlPolicy, issuancePolicy } from '../../settings/issuance-settings.ts'
import { isIpAddress } from '../facts/names.ts'
import { checkNameConstraints } from '../../shared/pki/constrained-names.ts'
import { keyUsagesFor } from '../../shared/pki/extensions.ts'
import type { NameConstraints } from '../../shared/pki/name-constraints.ts'
import type { Check } from '../check.ts'
import type { Sources } from '../sources.ts'
import { failure, messageOf, ok, orOk, type Verdict, warning } from '../verdict.ts'

const NARROW = 'widen it in policy of the issuer in the signer’s configuration and reload the signer (systemctl reload chancery-signer)'

export const SIGNER: readonly Check[] = [
  {
    id: 'signer.reachable',
    title: 'The signer answers, and shares the secret of the service',
    async look(sources) {
      if (!hasSigner(sources.config)) return undefined
      try {
        const { version, issuers } = await sources.signer()
        return ok(`release ${version}, with ${issuers.map(({ id }) => id).join(', ')}`)
      } catch (error) {
        if (/cannot be read|EACCES/i.test(messageOf(error))) throw error
        return failure(
          messageOf(error),
          'systemctl status chancery-signer; the same secret_file for both programs; docs/operations/signer.md',
        )
      }
    },
  },
  {
    id: 'signer.signing',
    title: 'The signer can sign: every token is there, and nothing has failed',
    look: (sources) =>
      withSigner(sources, ({ health }) =>
        orOk(
          [
            ...(health.signing ? [] : [failure('the signer signs nothing until it is started again', 'its log says why: journalctl -u chancery-signer; often its disk is full')]),
            ...health.tokens
              .filter(({ status }) => status !== 'ready')
              .map(({ issuer, status, since }) =>
                failure(
                  `the token with the key of ${issuer} is ${status} since ${since}`,
                  status === 'refused' ? 'correct the PIN (pin_file), then start the signer again' : 'see that the token can be reached (docs/operations/signer.md)',
                ),
              ),
          ],
          'it says so',
        ),
      ),
  },
  {
    id: 'signer.test-sign',
    title: 'Every issuer makes a test signature (--test-sign)',
    look: (sources) =>
      withSigner(sources, ({ signed }) => signed?.map(({ issuer, durationMs }) => ok(`${issuer} signed in ${durationMs.toFixed(1)} ms`))),
  },
  {
    id: 'signer.issuers',
    title: 'Every issuer is valid for as long as certificates are',
    look: (sources) => withSigner(sources, ({ issuers }) => issuers.map((issuer) => judgeIssuer(issuer, sources.config.ca.max_validity_days, new Date()))),
  },
  {
    id: 'signer.profiles',
    title: 'The issuers that profiles name are there',
    look: (sources) =>
      withSigner(sources, ({ issuers }) => {
        const there = issuers.map(({ id }) => id)
        const found = profilesOf(sources.config).flatMap(({ name, issuerIds }) =>
          issuerIds
            .filter((id) => !there.includes(id))
            .map((id) => failure(`ca.profiles.${name}.issuer names ${id}, and the signer has ${there.join(', ')}`, 'correct the key, or add the issuer to the signer’s configuration')),
        )
        return orOk(found, `${profilesOf(sources.config).length} profiles`)
      }),
  },
  onPolicy('validity', 'The signer signs for as long as profiles say', judgeValidity),
  onPolicy('start', 'The signer signs what begins as early as the service dates certificates back', judgeStart),
  onPolicy('key-types', 'The signer signs every kind of key that profiles allow', judgeKeyTypes),
  onPolicy('usages', 'The signer signs every usage that profiles have', judgeUsages),
  onPolicy('crl', 'The signer signs lists for as long as the service makes them, at their URLs', judgeCrl),
  {
    id: 'signer.names',
    title: 'Every name that may be ordered may be signed',
    look: (sources) =>
      withSigner(sources, ({ issuers }) => judgeNames(sources.config, limitsOf(sources, issuers), 'security.identifier_policy.allowed_domains')),
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
          names.flatMap((name) => {
            const refusals = refusalsOf(name, limits)
            return refusals.length < limits.length || limits.length === 0
              ? []
              : [failure(`server.tls.self_issued_names has ${name}, which no issuer signs: ${refusals[0]}`, NARROW)]
          }),
          names.join(', '),
        )
      })
    },
  },
]

type Facts = Awaited<ReturnType<Sources['signer']>>

async function withSigner(sources: Sources, look: (facts: Facts) => readonly Verdict[] | undefined) {
  return hasSigner(sources.config) ? look(await sources.signer()) : undefined
}

const profilesOf = (config: Config): CertificateProfile[] => [...issuancePolicy(config, []).profiles.values()]

type PolicyJudge = (config: Config, profiles: readonly CertificateProfile[], issuer: IssuerConfig) => readonly Verdict[]

/** A policy of a signer that runs by itself; the service makes that of its own from the profiles. */
function onPolicy(id: string, title: string, judge: PolicyJudge): Check {
  return {
    id: `signer.${id}`,
    title,
    look(sources) {
      const { config } = sources
      if (!hasSigner(config) || config.ca.signer.socket === null) return undefined
      const { issuers } = sources.signerConfig()
      const found = issuers.flatMap((issuer, at) => {
        const served = profilesOf(config).filter(({ issuerIds }) => (issuerIds.length === 0 ? at === 0 : issuerIds.includes(issuer.id)))
        return judge(config, served, issuer)
      })
      return orOk(found, `${issuers.map((issuer) => issuer.id).join(', ')}: as the service asks`)
    },
  }
}

const DAY_MS = 86_400_000
const WARNING_DAYS = 90
const FAILURE_DAYS = 14

export function judgeIssuer({ id, notAfter, notBefore }: Pick<CaIssuer, 'id' | 'notAfter' | 'notBefore'>, longestDays: number, now: Date): Verdict {
  const days = Math.floor((notAfter.getTime() - now.getTime()) / DAY_MS)
  const renew = 'make a new issuer, and let the signer take it by a reload (docs/operations/signer.md, "A new issuer without a pause")'
  if (days < 0) return failure(`the certificate of the issuer ${id} has expired, at ${notAfter.toISOString()}`, renew)
  if (notBefore > now) return failure(`the certificate of the issuer ${id} is not valid before ${notBefore.toISOString()}`, 'compare the clock of this host with that of the CA above')
  if (days < FAILURE_DAYS) return failure(`the certificate of the issuer ${id} ends in ${days} days`, renew)
  if (days < WARNING_DAYS) return warning(`the certificate of the issuer ${id} ends in ${days} days`, renew)
  if (days < longestDays) return ok(`${id} ends in ${days} days; certificates of ${longestDays} days (ca.max_validity_days) end with it`)
  return ok(`${id} ends in ${days} days`)
}

export function judgeValidity(_: Config, profiles: readonly CertificateProfile[], { id, policy }: IssuerConfig): readonly Verdict[] {
  const most = policy.max_validity_days
  return profiles.flatMap(({ name, validity: { validityDays, maxValidityDays } }) => {
    const limit = `max_validity_days of the issuer ${id} is ${most}`
    if (validityDays > most) return [failure(`certificates of the profile ${name} have ${validityDays} days, and ${limit}: none is signed`, NARROW)]
    if (maxValidityDays > most && maxValidityDays > validityDays)
      return [warning(`an order of the profile ${name} may ask for ${maxValidityDays} days (ca.max_validity_days), and ${limit}`, `lower the key to ${Math.floor(most)}, or widen the policy`)]
    return []
  })
}

export function judgeStart({ ca, order }: Config, _: readonly CertificateProfile[], { id, policy }: IssuerConfig): readonly Verdict[] {
  const days = Math.max(ca.backdate_seconds, order.expiry_seconds) / 86_400
  if (days <= policy.max_start_offset_days) return []
  return [
    warning(
      `an order may begin ${days.toFixed(1)} days from now (order.expiry_seconds, ca.backdate_seconds), and max_start_offset_days of the issuer ${id} is ${policy.max_start_offset_days}`,
      NARROW,
    ),
  ]
}

export function judgeKeyTypes(_: Config, profiles: readonly CertificateProfile[], { id, policy }: IssuerConfig): readonly Verdict[] {
  return profiles.flatMap(({ name, keyTypes }) => {
    const missing = keyTypes.filter((type) => !policy.key_types.includes(type))
    return missing.length === 0
      ? []
      : [failure(`the profile ${name} takes keys ${missing.join(', ')}, and key_types of the issuer ${id} has not: such orders fail at the end`, `take them out of ca.profiles.${name}.key_types, or add them to key_types`)]
  })
}

export function judgeUsages(_: Config, profiles: readonly CertificateProfile[], { id, policy }: IssuerConfig): readonly Verdict[] {
  return profiles.flatMap(({ name, keyUsages, extendedKeyUsages, keyTypes }) => {
    const wanted = keyTypes.flatMap((type) => keyUsagesFor(SUBJECT_KEY_KINDS[type], keyUsages))
    const missing = [
      ...[...new Set(wanted)].filter((usage) => !(policy.key_usages as readonly string[]).includes(usage)),
      ...extendedKeyUsages.filter((usage) => !policy.extended_key_usages.includes(usage)),
    ]
    const bare = policy.key_usage_required && keyTypes.some((type) => keyUsagesFor(SUBJECT_KEY_KINDS[type], keyUsages).length === 0)
    return [
      ...(missing.length > 0 ? [failure(`certificates of the profile ${name} have ${missing.join(', ')}, which the policy of the issuer ${id} does not list: none is signed`, NARROW)] : []),
      ...(bare ? [failure(`certificates of the profile ${name} may have no key usage, and the issuer ${id} has key_usage_required`, NARROW)] : []),
    ]
  })
}

export function judgeCrl(config: Config, _: readonly CertificateProfile[], { id, policy }: IssuerConfig): readonly Verdict[] {
  const { crl, ca } = config
  if (!crl.enabled && ca.crl_url === null) return []
  const days = crl.next_update_seconds / 86_400
  const url = crlPolicy(config).urlOf(id, 1, 0)
  const outside = policy.crl_urls !== undefined && !policy.crl_urls.some((base) => isBelow(url, base))
  return [
    ...(crl.enabled && days > policy.max_crl_validity_days
      ? [failure(`lists are valid for ${days.toFixed(1)} days (crl.next_update_seconds), and max_crl_validity_days of the issuer ${id} is ${policy.max_crl_validity_days}: none is signed`, NARROW)]
      : []),
    ...(outside
      ? [failure(`certificates name the list ${url}, which is below none of crl_urls of the issuer ${id}: none is signed`, 'let ca.crl_url and policy.crl_urls agree')]
      : []),
  ]
}

/** Same scheme, host and port, and the same first folders. */
function isBelow(url: string, base: string): boolean {
  const [one, other] = [new URL(url), new URL(base)]
  const folder = other.pathname.replace(/\/$/, '')
  return one.origin === other.origin && (one.pathname === folder || one.pathname.startsWith(`${folder}/`))
}

/** What each issuer certifies: by its certificates, and by the signer's policy where that is known. */
function limitsOf(sources: Sources, issuers: readonly CaIssuer[]): (readonly NameConstraints[])[] {
  const { socket } = sources.config.ca.signer
  const known = socket === null || sources.signerConfigFile === undefined ? [] : sources.signerConfig().issuers
  return issuers.map(({ id, constraints }) => {
    const policy = known.find((issuer) => issuer.id === id)?.policy
    return policy ? [...constraints, configuredConstraints(policy)] : constraints
  })
}

function refusalsOf(name: string, limits: readonly (readonly NameConstraints[])[]): string[] {
  const kind = isIpAddress(name) ? ('iPAddress' as const) : ('dNSName' as const)
  const refusals = limits.map((one) => checkNameConstraints({ subject: [], subjectAltNames: [{ kind, value: name }] }, one))
  return refusals.filter((refusal) => refusal !== undefined)
}

export function judgeNames(
  { security }: Pick<Config, 'security'>,
  limits: readonly (readonly NameConstraints[])[],
  key: string,
): readonly Verdict[] {
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
  const refused = names.flatMap((name) => {
    const refusals = refusalsOf(name, limits)
    return limits.length > 0 && refusals.length === limits.length
      ? [failure(`${key} has ${name.replace(/^any\./, '*.')}, and no issuer signs it: ${refusals[0]}`, `take it out, or permit it to an issuer: policy.permitted of the signer`)]
      : []
  })
  const isIpRefused = allow_ip && limits.length > 0 && limits.every((one) => one.some(({ permitted }) => permitted.ip?.length === 0))
  const addresses = isIpRefused ? [failure('addresses may be ordered (allow_ip), and no issuer signs any', 'set security.identifier_policy.allow_ip: false, or permit networks')] : []
  return orOk([...refused, ...addresses], allowed.length === 0 ? 'nothing limits them' : `${allowed.length} patterns`)
}
