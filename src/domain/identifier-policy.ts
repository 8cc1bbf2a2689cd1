/**
 * Which identifiers may be requested (RFC 8555 §7.4; docs/decisions/identifiers.md, docs/decisions/problem-types.md,
 * docs/decisions/offered-challenges.md). new-order, new-authz and finalize share one function.
 */

import { createRequire } from 'node:module'
import { checkNameConstraints, type NameConstraints } from '../shared/pki/name-constraints.ts'
import {
  CHALLENGE_TYPES,
  type ChallengeType,
  type EnabledMethod,
  hasToken,
  typeOf,
} from '../shared/protocol/challenge.ts'
import {
  IDENTIFIER_TYPES,
  type Identifier,
  type IdentifierType,
  isWildcard,
  normalizeDnsName,
  normalizeIpAddress,
} from '../shared/protocol/identifier.ts'
import { Problem, type ProblemType, type Subproblem } from '../shared/protocol/problem.ts'
import { type Allowlist, allowsWildcard, forbidsWildcard, isAllowed, matchesPattern } from './allowlist.ts'

export interface IdentifierPolicy {
  /** Patterns: an exact name, or `*.x` for x and all below it. Empty allows every name. */
  allowedDomains: readonly string[]
  forbiddenDomains: readonly string[]
  allowWildcards: boolean
  allowIp: boolean
  allowSingleLabel: boolean
  /** Refuses wildcards right below such a name; undefined without a list. */
  isRegistry?: IsRegistry | undefined
  maxIdentifiers: number
  maxValueLength: number
  enabledChallenges: readonly EnabledMethod[]
}

/** An identifier as the client sent it: any strings. */
export interface RequestedIdentifier {
  type: string
  value: string
}

/**
 * Normalises and checks the identifiers of a request. One that is named twice counts once.
 * @param allowlist of the account, where `enforce_account_allowlist` is set
 * @param issuers name constraints of each issuer that may sign; one of them must admit all names
 * @throws Problem with a single refusal's type, or `compound` with a subproblem for each
 */
export function checkIdentifiers(
  requested: readonly RequestedIdentifier[],
  policy: IdentifierPolicy,
  allowlist?: Allowlist,
  issuers: readonly (readonly NameConstraints[])[] = [],
): Identifier[] {
  if (requested.length === 0) throw new Problem('malformed', 'identifiers must name at least one identifier')
  if (requested.length > policy.maxIdentifiers)
    throw new Problem(
      'malformed',
      `an order may have at most ${policy.maxIdentifiers} identifiers; this one has ${requested.length}`,
    )

  const accepted: Identifier[] = []
  const refused: Subproblem[] = []
  for (const identifier of requested) {
    const verdict = checkIdentifier(identifier, policy, allowlist)
    if ('problem' in verdict) refused.push({ type: verdict.problem, detail: verdict.detail, identifier })
    else accepted.push(verdict)
  }
  refused.push(...refusedByIssuers(accepted, issuers))
  const identifiers = refused.flatMap(({ identifier }) => identifier ?? [])
  const [first] = refused
  const options = { refused: identifiers, ...(requested.length > 1 && { subproblems: refused }) }
  if (first && refused.length === 1) throw new Problem(first.type, first.detail, options)
  if (first) throw new Problem('compound', `${refused.length} identifiers were refused; see the subproblems`, options)

  // A set: cert-manager and hand-written lists name the common name again.
  return [...new Map(accepted.map((identifier) => [`${identifier.type}:${identifier.value}`, identifier])).values()]
}

function refusedByIssuers(
  identifiers: readonly Identifier[],
  issuers: readonly (readonly NameConstraints[])[],
): Subproblem[] {
  const refusalsOf = (constraints: readonly NameConstraints[]) =>
    identifiers.flatMap((identifier): Subproblem[] => {
      const detail = constraintRefusal(identifier, constraints)
      return detail === undefined ? [] : [{ type: 'rejectedIdentifier', detail, identifier }]
    })
  const refusals = issuers.map(refusalsOf)
  return refusals.some(({ length }) => length === 0) ? [] : (refusals[0] ?? [])
}

/** Why no verifier would accept a certificate for the name (RFC 5280 §4.2.1.10). */
export function constraintRefusal(
  { type, value }: Identifier,
  constraints: readonly NameConstraints[],
): string | undefined {
  const kind = type === 'dns' ? 'dNSName' : 'iPAddress'
  const refusal = checkNameConstraints({ subject: [], subjectAltNames: [{ kind, value }] }, constraints)
  return refusal && `${refusal} (name constraints of the CA)`
}

type Verdict = Identifier | { problem: ProblemType; detail: string }

function checkIdentifier(
  { type, value }: RequestedIdentifier,
  policy: IdentifierPolicy,
  allowlist: Allowlist | undefined,
): Verdict {
  if (!(IDENTIFIER_TYPES as readonly string[]).includes(type))
    return refuse('unsupportedIdentifier', `identifier type ${shown(type)} is not supported; use dns or ip`)
  if (value.length > policy.maxValueLength)
    return refuse('rejectedIdentifier', `an identifier may have at most ${policy.maxValueLength} characters`)
  if (type === 'ip' && !policy.allowIp)
    return refuse('unsupportedIdentifier', 'identifiers of type ip are not accepted by this server')

  const normal = type === 'dns' ? normalizeDnsName(value) : normalizeIpAddress(value)
  if (!normal.ok) return refuse('malformed', `${shown(value)} ${normal.reason}`)
  if (!isAscii(value))
    return refuse('malformed', `${shown(value)} is not in ASCII (RFC 8555 §7.1.4); send ${normal.value}`)
  const identifier: Identifier = { type: type as IdentifierType, value: normal.value }
  return (
    checkNames(identifier, policy) ??
    checkAllowlist(identifier, allowlist) ??
    checkChallenges(identifier, policy) ??
    identifier
  )
}

/**
 * Addresses of no host, in canonical text: "this network", multicast, limited broadcast, `::`. As
 * in workers/address-policy.ts.
 */
const NEVER_A_TARGET = /^(?:0|22[4-9]|23[0-9])\.|^255\.255\.255\.255$|^::$|^ff[0-9a-f]{2}:/

/** Not for hosts in the DNS (RFC 7686 §2, RFC 3172 §2): ordered only where `allowed_domains` names them. */
const SPECIAL_USE = /(?:^|\.)(onion|arpa)$/

function checkNames(identifier: Identifier, policy: IdentifierPolicy): Verdict | undefined {
  if (identifier.type === 'ip')
    return NEVER_A_TARGET.test(identifier.value)
      ? refuse('rejectedIdentifier', `${identifier.value} is the address of no host, so nothing can be validated there`)
      : undefined
  const wildcard = isWildcard(identifier)
  const name = wildcard ? identifier.value.slice(2) : identifier.value
  if (wildcard && !policy.allowWildcards)
    return refuse('rejectedIdentifier', `${identifier.value}: wildcards are not accepted by this server`)
  if (wildcard && policy.isRegistry?.(name))
    return refuse('rejectedIdentifier', `${identifier.value}: names below ${name} can be registered by anyone`)
  if (!name.includes('.') && !policy.allowSingleLabel)
    return refuse('rejectedIdentifier', `${identifier.value} has only one label`)
  const [isForbidden, isAllowed] = wildcard ? [forbidsWildcard, allowsWildcard] : [matchesPattern, matchesPattern]
  if (policy.forbiddenDomains.some((pattern) => isForbidden(name, pattern)))
    return refuse('rejectedIdentifier', `${identifier.value} is forbidden by the policy of this server`)
  if (policy.allowedDomains.some((pattern) => isAllowed(name, pattern))) return undefined
  if (policy.allowedDomains.length > 0)
    return refuse('rejectedIdentifier', `${identifier.value} is outside the domains this server issues for`)
  const [, specialUse] = SPECIAL_USE.exec(name) ?? []
  if (specialUse !== undefined)
    return refuse('rejectedIdentifier', `${identifier.value}: names below ${specialUse} are not issued by this server`)
  return undefined
}

function checkAllowlist(identifier: Identifier, allowlist: Allowlist | undefined): Verdict | undefined {
  if (allowlist === undefined || isAllowed(identifier, allowlist)) return undefined
  return refuse('rejectedIdentifier', `${identifier.value} is not among the identifiers allowed to this account`)
}

function checkChallenges(identifier: Identifier, policy: IdentifierPolicy): Verdict | undefined {
  if (offeredChallengeTypes(identifier, policy.enabledChallenges).length > 0) return undefined
  const kind = identifier.type === 'ip' ? 'an IP address' : 'a wildcard name'
  return refuse(
    'rejectedIdentifier',
    `${identifier.value}: no challenge type enabled on this server (${policy.enabledChallenges.map(typeOf).join(', ')}) can validate ${kind}`,
  )
}

/**
 * Enabled types that can prove control of the identifier (RFC 8555 §8, RFC 8737 §3, RFC 8738 §4).
 * Types without a token come last: acmephp and yaac end at the first one, before they look at http-01.
 */
export function offeredChallengeTypes(identifier: Identifier, enabled: readonly EnabledMethod[]): ChallengeType[] {
  const offered = enabled.flatMap((method) => {
    const [type, row] = typeof method === 'string' ? [method, CHALLENGE_TYPES[method]] : [method.type, method]
    const fits = identifier.type === 'ip' ? row.forIp : row.forWildcard || !identifier.value.startsWith('*.')
    return fits ? [type] : []
  })
  return [...offered.filter(hasToken), ...offered.filter((type) => !hasToken(type))]
}

function refuse(problem: ProblemType, detail: string): Verdict {
  return { problem, detail }
}

const isAscii = (text: string) => /^\p{ASCII}*$/u.test(text)

/** Makes a client's text safe to repeat: short and printable. */
function shown(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, '?')
  return JSON.stringify(printable.length > 80 ? `${printable.slice(0, 80)}…` : printable)
}

/** Names below which anybody can register names, by the Public Suffix List (publicsuffix.org). */
export const PUBLIC_SUFFIX_LISTS = ['none', 'builtin'] as const
type PublicSuffixList = (typeof PUBLIC_SUFFIX_LISTS)[number]

/** Whether the names right below `name`, in normal form, belong to their registrants. */
export type IsRegistry = (name: string) => boolean

/**
 * Reads the list of the `tldts` package on demand, 1.5 MB a thread. Omits private domains, as
 * CA/Browser Forum BR §3.2.2.6 advises: the operator of `github.io` may have its wildcard.
 */
export function publicSuffixes(list: PublicSuffixList): IsRegistry | undefined {
  if (list === 'none') return undefined
  const { getPublicSuffix } = createRequire(import.meta.url)('tldts') as typeof import('tldts')
  const options = { extractHostname: false, validateHostname: false, detectIp: false }
  return (name) => {
    // A rule such as `*.kawasaki.jp` covers only names below it, hence the extra label. No rule begins with `_`.
    const suffix = getPublicSuffix(`_.${name}`, options)
    return suffix === null || suffix.length >= name.length
  }
}
