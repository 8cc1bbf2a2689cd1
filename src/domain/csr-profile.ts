/**
 * CSR profiles: an operator's demands on an account's certification requests, beyond order and policy. Pure: facts from
 * the database arrive as values.
 *
 * An omitted field disables its check. All violations are collected, so that one refused finalize names them all.
 */

import { isJsonObject, type JsonObject } from '../shared/lib/encoding.ts'
import { CURVES, type Spki } from '../shared/pki/algorithms.ts'
import type { Csr } from '../shared/pki/csr.ts'
import { type GeneralName, type GeneralNameKind, MAX_COMMON_NAME_CHARACTERS } from '../shared/pki/name.ts'
import { EXTENDED_KEY_USAGES } from '../shared/pki/oids.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { certifiedCommonNames, certifiedNames, firstOf, fitsCommonName, listed, shortened, shown } from './csr-check.ts'
import { compileLinearPattern, type LinearPattern, PatternError } from './linear-pattern.ts'

/** `profile_data`, checked and compiled. A minimum or maximum of −1 means no limit, and is absent here. */
export interface CsrProfile {
  /** Key type label → minimum size in bits; 0 is no minimum. */
  authorizedKeys?: ReadonlyMap<string, number>
  authorizedSignatureAlgorithms?: readonly string[]
  authorizedKeyUsages?: readonly string[]
  authorizedExtendedKeyUsages?: readonly string[]
  commonNames: CountRule
  commonNamePattern?: LinearPattern
  sans: CountRule
  sanPattern?: LinearPattern
  sanTypes?: readonly string[]
  subjectPattern?: LinearPattern
  wildcardInCommonName: boolean
  wildcardInSan: boolean
  depth?: { max: number; baseDomains: ReadonlySet<string>; longestBase: number }
  reuseKey: boolean
  /** 0: no check. */
  renewalWindowDays: number
}

interface CountRule {
  minimum: number
  /** Infinity: no limit. */
  maximum: number
}

/** Facts about earlier certificates. */
export interface CertificateHistory {
  keyCertified: boolean
  notDue: boolean
}

/** The JSON is not a profile; `faults` has one sentence for each wrong member. */
export class CsrProfileError extends Error {
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('; '))
    this.name = 'CsrProfileError'
    this.faults = faults
  }
}

/**
 * Reads `profile_data`. Ignores unknown members, which later releases or other servers may know.
 * @throws CsrProfileError
 */
export function parseCsrProfile(data: unknown): CsrProfile {
  const read = new ProfileReader(data)
  const depth = read.whole('max_subdomain_depth', 0)
  const bases = read.texts('depth_base_domains', true)?.map(domain)
  const profile = {
    authorizedKeys: read.sizes('authorized_keys'),
    authorizedSignatureAlgorithms: read.texts('authorized_signature_algorithms'),
    authorizedKeyUsages: read.texts('authorized_key_usages'),
    authorizedExtendedKeyUsages: read.texts('authorized_extended_key_usages'),
    commonNames: read.count('common_name_minimum', 'common_name_maximum'),
    commonNamePattern: read.pattern('common_name_regex'),
    sans: read.count('san_minimum', 'san_maximum'),
    sanPattern: read.pattern('san_regex'),
    sanTypes: read.texts('san_types'),
    subjectPattern: read.pattern('subject_regex'),
    wildcardInCommonName: read.flag('wildcard_in_common_name'),
    wildcardInSan: read.flag('wildcard_in_san'),
    depth: depth !== undefined && bases ? depthRule(depth, bases) : undefined,
    reuseKey: read.flag('reuse_key'),
    renewalWindowDays: Math.max(0, read.whole('renewal_window_days') ?? 0),
  }
  if (read.faults.length > 0) throw new CsrProfileError(read.faults)
  return withoutUndefined(profile)
}

function withoutUndefined(profile: { [K in keyof CsrProfile]: CsrProfile[K] | undefined }): CsrProfile {
  return Object.fromEntries(Object.entries(profile).filter(([, value]) => value !== undefined)) as unknown as CsrProfile
}

/** A base domain in one spelling. */
export const domain = (text: string) => text.toLowerCase().replace(/^\*\./, '').replace(/\.$/, '')

function depthRule(max: number, bases: readonly string[]): NonNullable<CsrProfile['depth']> {
  const longestBase = bases.reduce((longest, { length }) => Math.max(longest, length), 0)
  return { max, baseDomains: new Set(bases), longestBase }
}

/** Largest whole number in a profile; a Date can still be moved by so many days. */
const MAX_WHOLE = 1_000_000

/** Reads members of one object and collects their faults. An absent or null member is undefined. */
class ProfileReader {
  readonly faults: string[] = []
  readonly #data: JsonObject

  constructor(data: unknown) {
    if (!isJsonObject(data)) this.faults.push('profile_data must be an object')
    this.#data = isJsonObject(data) ? data : {}
  }

  #member<T>(name: string, expected: string, isRight: (value: unknown) => value is T): T | undefined {
    const value = Object.hasOwn(this.#data, name) ? (this.#data[name] ?? undefined) : undefined
    if (value === undefined || isRight(value)) return value
    this.faults.push(`${name} must be ${expected}`)
    return undefined
  }

  whole(name: string, minimum = -1): number | undefined {
    const isRight = (value: unknown): value is number =>
      Number.isInteger(value) && (value as number) >= minimum && (value as number) <= MAX_WHOLE
    return this.#member(name, `an integer from ${minimum} to ${MAX_WHOLE}`, isRight)
  }

  /** Only an explicit false forbids. */
  flag(name: string): boolean {
    return this.#member(name, 'true or false', (value) => typeof value === 'boolean') ?? true
  }

  texts(name: string, filled = false): string[] | undefined {
    const isRight = (value: unknown): value is string[] =>
      Array.isArray(value) && value.every((text) => typeof text === 'string' && (!filled || text.trim() !== ''))
    return this.#member(name, filled ? 'a list of texts that are not empty' : 'a list of texts', isRight)
  }

  sizes(name: string): Map<string, number> | undefined {
    const isRight = (value: unknown): value is Record<string, number> =>
      typeof value === 'object' &&
      value !== null &&
      !Array.isArray(value) &&
      Object.values(value).every((size) => typeof size === 'number' && Number.isFinite(size) && size >= 0)
    const sizes = this.#member(name, 'an object of key type labels and sizes in bits', isRight)
    return sizes && new Map(Object.entries(sizes))
  }

  count(minimum: string, maximum: string): CountRule {
    const most = this.whole(maximum) ?? -1
    return { minimum: Math.max(0, this.whole(minimum) ?? 0), maximum: most < 0 ? Number.POSITIVE_INFINITY : most }
  }

  pattern(name: string): LinearPattern | undefined {
    const source = this.#member(name, 'a regular expression', (value) => typeof value === 'string')
    if (source === undefined) return undefined
    try {
      return compileLinearPattern(source)
    } catch (error) {
      if (!(error instanceof PatternError)) throw error
      this.faults.push(`${name} ${error.message}`)
      return undefined
    }
  }
}

/** Whether the profile needs the issuance history. */
export function asksForHistory({ reuseKey, renewalWindowDays }: CsrProfile): boolean {
  return !reuseKey || renewalWindowDays > 0
}

/** A profile looks at no more of a request than this. */
export type CsrFacts = Pick<
  Csr,
  | 'spki'
  | 'commonNames'
  | 'subjectText'
  | 'subjectAltNames'
  | 'signatureAlgorithm'
  | 'signatureAlgorithmOid'
  | 'keyUsages'
  | 'extendedKeyUsages'
>

/** A request may have thousands of names, and each violation takes about a hundred characters. */
const MAX_VIOLATIONS = 50

/**
 * Violations by a request, as short sentences; when there are more than `most`, the last one counts the others.
 * The rules of names judge what the certificate will carry, so a name in the common name alone counts.
 *
 * Total: accepts any parsed CSR and profile.
 * @param history absent where the profile needs none, or it is not known
 */
export function csrProfileViolations(
  csr: CsrFacts,
  profile: CsrProfile,
  { history, most = MAX_VIOLATIONS }: { history?: CertificateHistory | undefined; most?: number } = {},
): string[] {
  return firstOf([...requestViolations(csr, profile), ...(history ? historyViolations(profile, history) : [])], most)
}

function requestViolations(csr: CsrFacts, profile: CsrProfile): string[] {
  const commonNames = certifiedCommonNames(csr)
  const sans = certifiedNames(csr).filter(({ kind }) => kind in SAN_TYPES)
  const dnsNames = sans.filter(({ kind }) => kind === 'dNSName')
  return [
    ...keyViolations(csr.spki, profile.authorizedKeys),
    ...algorithmViolations(csr, profile.authorizedSignatureAlgorithms),
    ...usageViolations('key usage', csr.keyUsages, profile.authorizedKeyUsages),
    ...usageViolations('extended key usage', csr.extendedKeyUsages?.map(rfcName), profile.authorizedExtendedKeyUsages),
    ...minimumViolations(
      `common names of at most ${MAX_COMMON_NAME_CHARACTERS} characters`,
      commonNames.filter(fitsCommonName).length,
      profile.commonNames,
    ),
    ...maximumViolations('common names', csr.commonNames.length, profile.commonNames),
    ...minimumViolations('subject alternative names', sans.length, profile.sans),
    ...maximumViolations('subject alternative names', sans.length, profile.sans),
    ...patternViolations(profile, commonNames, sans, csr.subjectText),
    ...sanTypeViolations(sans, profile.sanTypes),
    ...(profile.wildcardInCommonName ? [] : wildcardViolations('common name', commonNames)),
    ...(profile.wildcardInSan ? [] : wildcardViolations('subject alternative name', valuesOf(sans))),
    ...depthViolations(valuesOf(dnsNames), profile.depth),
    ...sans.filter(({ value }) => hasControl(value)).map(({ value }) => `${shown(value)} has control characters`),
  ]
}

/** Violations by the certificates issued before. */
function historyViolations({ reuseKey, renewalWindowDays }: CsrProfile, history: CertificateHistory): string[] {
  return [
    ...(!reuseKey && history.keyCertified ? ['the key has been certified before; make a new one'] : []),
    ...(renewalWindowDays > 0 && history.notDue
      ? [`a certificate for one of the names is being issued, or valid for more than ${renewalWindowDays} days to come`]
      : []),
  ]
}

/** Some clients show only the detail. */
const MAX_IN_DETAIL = 5

/** One badCSR with a subproblem for each violation. These concern the whole request, so they name no identifier. */
export function csrProfileProblem(violations: readonly string[]): Problem {
  const first = violations.slice(0, MAX_IN_DETAIL).join('; ')
  const more = violations.length > MAX_IN_DETAIL ? '; and others' : ''
  return new Problem('badCSR', `the CSR violates the CSR profile of this account: ${first}${more}`, {
    subproblems: violations.map((detail) => ({ type: 'badCSR', detail })),
  })
}

/** Labels of `san_types`. Other kinds of name are ignored here and never certified. */
const SAN_TYPES: { readonly [K in GeneralNameKind]?: string } = {
  dNSName: 'DNS_NAME',
  iPAddress: 'IP_ADDRESS',
  rfc822Name: 'RFC822_NAME',
  uniformResourceIdentifier: 'URI',
}

const ED448 = '1.3.101.113'

function keyLabel(spki: Spki): { label: string; bits?: number } {
  switch (spki.kind) {
    case 'rsa':
      return { label: 'RSA', bits: spki.bits }
    case 'ec':
      return { label: CURVES[spki.curve].profileLabel, bits: CURVES[spki.curve].bits }
    case 'ed25519':
      return { label: 'Ed25519' }
    case 'unsupported':
      return { label: spki.oid === ED448 ? 'Ed448' : spki.oid }
  }
}

function keyViolations(spki: Spki, authorized: CsrProfile['authorizedKeys']): string[] {
  if (!authorized) return []
  const { label, bits } = keyLabel(spki)
  const minimum = authorized.get(label)
  if (minimum === undefined)
    return [`keys of type ${shown(label)} are not authorized; use ${authorizedOf([...authorized.keys()])}`]
  if (bits === undefined || bits >= minimum) return []
  return [`the ${label} key has ${bits} bits; the minimum is ${minimum}`]
}

function algorithmViolations(csr: CsrFacts, authorized: readonly string[] | undefined): string[] {
  const oid = csr.signatureAlgorithmOid
  const name = csr.signatureAlgorithm ?? (oid === ED448 ? 'Ed448' : oid)
  if (!authorized || authorized.includes(name)) return []
  return [`signature algorithm ${shown(name)} is not authorized; use ${authorizedOf(authorized)}`]
}

const authorizedOf = (values: readonly string[]) => listed(values) || 'none'

/** Checks usages only if the CSR asks for the extension. */
function usageViolations(
  what: string,
  requested: readonly string[] | undefined,
  authorized: readonly string[] | undefined,
): string[] {
  const extra = authorized && requested?.filter((usage) => !authorized.includes(usage))
  return (extra ?? []).map((usage) => `${what} ${shown(usage)} is not authorized`)
}

function rfcName(usage: string): string {
  return Object.hasOwn(EXTENDED_KEY_USAGES, usage)
    ? EXTENDED_KEY_USAGES[usage as keyof typeof EXTENDED_KEY_USAGES].rfcName
    : usage
}

function minimumViolations(what: string, count: number, { minimum }: CountRule): string[] {
  return count < minimum ? [`${count} ${what}; the minimum is ${minimum}`] : []
}

function maximumViolations(what: string, count: number, { maximum }: CountRule): string[] {
  return count > maximum ? [`${count} ${what}; the maximum is ${maximum}`] : []
}

/** Bound of a request's characters times instructions: about half a second in the worst case. */
const MAX_PATTERN_WORK = 5_000_000

function patternViolations(
  { commonNamePattern, sanPattern, subjectPattern }: CsrProfile,
  commonNames: readonly string[],
  sans: readonly GeneralName[],
  subject: string,
): string[] {
  const checks = [
    ...(commonNamePattern ? commonNames.map((value) => ['common name', value, commonNamePattern] as const) : []),
    ...(sanPattern ? valuesOf(sans).map((value) => ['subject alternative name', value, sanPattern] as const) : []),
    ...(subjectPattern ? [['subject', subject, subjectPattern] as const] : []),
  ]
  const work = checks.reduce((sum, [, value, pattern]) => sum + value.length * pattern.size, 0)
  if (work > MAX_PATTERN_WORK) return ['its names are too long for the regular expressions of the profile']
  return checks.flatMap(([what, value, pattern]) =>
    pattern.matches(value) ? [] : [`${what} ${shown(value)} does not match ${shortened(pattern.source)}`],
  )
}

function sanTypeViolations(sans: readonly GeneralName[], authorized: readonly string[] | undefined): string[] {
  if (!authorized) return []
  const types = new Set(sans.map(({ kind }) => SAN_TYPES[kind] as string))
  return [...types]
    .filter((type) => !authorized.includes(type))
    .map((type) => `subject alternative names of type ${type} are not authorized`)
}

function wildcardViolations(what: string, values: readonly string[]): string[] {
  return values.filter((value) => value.startsWith('*.')).map((value) => `${what} ${shown(value)} is a wildcard`)
}

function depthViolations(names: readonly string[], rule: CsrProfile['depth']): string[] {
  if (!rule) return []
  const bases = listed([...rule.baseDomains]) || 'none'
  return names.flatMap((name) => {
    const depth = depthOf(name, rule)
    if (depth === undefined) return [`${shown(name)} lies below none of ${bases}`]
    return depth > rule.max
      ? [`${shown(name)} is ${depth} labels below its base domain; the maximum is ${rule.max}`]
      : []
  })
}

/** Counts labels of a name, its wildcard included, beyond the longest base at or above it. */
function depthOf(name: string, { baseDomains, longestBase }: NonNullable<CsrProfile['depth']>): number | undefined {
  for (let depth = 0, at = 0; ; depth++) {
    // A name may have thousands of labels, and each look-up reads all of its text.
    if (name.length - at <= longestBase && baseDomains.has(name.slice(at))) return depth
    const dot = name.indexOf('.', at)
    if (dot < 0) return undefined
    at = dot + 1
  }
}

const valuesOf = (names: readonly GeneralName[]) => names.map(({ value }) => value)

function hasControl(text: string): boolean {
  return [...text].some((character) => character < ' ' || character === '\x7f')
}
