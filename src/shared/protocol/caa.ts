/**
 * Whether a CAA record set permits issuance (RFC 8659 §4, RFC 8657). Pure; `workers/caa-check.ts` finds the set.
 *
 * Anything not understood forbids: an unknown critical property, an issue value outside the grammar, a contradictory
 * parameter. A set without any property for the request permits it.
 *
 * The TXT records of dns-persist-01 have issue values, too (draft-ietf-acme-dns-persist §4.1). Their grammar (RFC 8659
 * §4.2 with erratum 7139, RFC 8657):
 *
 *     issue-value = *WSP [issuer-domain-name *WSP] [";" *WSP [parameters *WSP]]
 *     parameters  = parameter *( *WSP ";" *WSP parameter )
 *     parameter   = tag *WSP "=" *WSP value
 *
 * Names and tags are returned in lower case; RFC 8659 leaves the case of tags open. `AccountURI` must bind: skipping it as
 * unknown would widen the permission.
 */

import { CLOCKS_DIFFER_MS } from '../lib/clocks.ts'

export interface CaaProperty {
  /** Bit 0 of the flags; the other bits are reserved (RFC 8659 §4.1). */
  critical: boolean
  /** In any letter case. */
  tag: string
  value: string
}

export interface CaaRequest {
  /** Whether the order is for a wildcard name. */
  wildcard: boolean
  /** Issuer domain names of this service, lower case. */
  identities: readonly string[]
  /** Only checks whether the records name this service; the caller checks the parameters (RFC 8657). */
  issuerOnly?: boolean
  /** URL of the account that requests the certificate. */
  accountUri: string
  /** The method that proved control. Undefined when there is none, which satisfies no `validationmethods`. */
  method: string | undefined
}

/** `reason` contains no byte of a record. */
type CaaDecision = { permitted: true } | { permitted: false; reason: string }

/**
 * Properties that may be critical: `iodef` requests optional reports (RFC 8659 §4.4).
 * `issuemail` (RFC 9495 §3) and `issuevmc` of IANA's registry are about certificates for mail and brand marks, not for servers.
 */
const UNDERSTOOD = new Set(['issue', 'issuewild', 'iodef', 'issuemail', 'issuevmc'])

/** @param records the relevant record set (RFC 8659 §3), perhaps empty */
export function evaluateCaa(records: readonly CaaProperty[], request: CaaRequest): CaaDecision {
  const properties = records.map((record) => ({ ...record, tag: record.tag.toLowerCase() }))
  if (properties.some(({ critical, tag }) => critical && !UNDERSTOOD.has(tag)))
    return { permitted: false, reason: 'they have a critical property that this server does not know' }

  const governing = governingProperties(properties, request.wildcard)
  if (governing.length === 0) return { permitted: true }
  const obstacles = governing.map(({ value }) => obstacleIn(value, request))
  if (obstacles.includes('none')) return { permitted: true }
  // A record that names this server but binds it to something else explains most.
  const nearest = (['method', 'account', 'malformed'] as const).find((obstacle) => obstacles.includes(obstacle))
  return { permitted: false, reason: REASONS[nearest ?? 'issuer'] }
}

/** `issuewild` counts for wildcards only, where it replaces `issue` (RFC 8659 §4.3). */
function governingProperties(properties: readonly CaaProperty[], wildcard: boolean): CaaProperty[] {
  const tagged = (name: string) => properties.filter(({ tag }) => tag === name)
  const wild = wildcard ? tagged('issuewild') : []
  return wild.length > 0 ? wild : tagged('issue')
}

const REASONS = {
  method: 'they name this server, but not for the validation method that was used',
  account: 'they name this server, but for another account',
  malformed: 'they name this server in a value that is malformed',
  issuer: 'they do not name this server',
}
type Obstacle = keyof typeof REASONS | 'none'

/** The reason why one property does not authorize the request (RFC 8659 §4.2, RFC 8657 §3 and §4). */
function obstacleIn(text: string, request: CaaRequest): Obstacle {
  const value = parseIssueValue(text)
  if (!value) return request.identities.includes(issuerPart(text).toLowerCase()) ? 'malformed' : 'issuer'
  if (!request.identities.includes(value.issuerDomainName)) return 'issuer'
  if (request.issuerOnly) return 'none'
  if (!admitsAccount(value, request.accountUri)) return 'account'
  return admitsMethod(value, request.method) ? 'none' : 'method'
}

/** Compared as text: this server never issued a URI in another spelling (RFC 8657 §3). */
function admitsAccount(value: IssueValue, accountUri: string): boolean {
  const uris = parameterValues(value, 'accounturi')
  return uris.length === 0 || (uris.length === 1 && uris[0] === accountUri)
}

const METHOD_LIST = /^[A-Za-z0-9-]+(?:,[A-Za-z0-9-]+)*$/

/** RFC 8657 §4: an empty list admits no method. */
function admitsMethod(value: IssueValue, method: string | undefined): boolean {
  const [list, ...more] = parameterValues(value, 'validationmethods')
  if (list === undefined) return true
  return more.length === 0 && method !== undefined && METHOD_LIST.test(list) && list.split(',').includes(method)
}

/** How long a check is valid for issuances under the same authorization (BR 3.2.2.8). */
const CHECK_LIFE_MS = 8 * 3_600_000

export function isCaaCheckFresh(checkedAt: Date, now: Date): boolean {
  return checkedAt <= latestCaaCheck(now) && now.getTime() - checkedAt.getTime() < CHECK_LIFE_MS
}

/** A later check was written while a clock was ahead, and nobody knows its age. */
export const latestCaaCheck = (now: Date): Date => new Date(now.getTime() + CLOCKS_DIFFER_MS)

interface IssueParameter {
  /** Lower case. */
  tag: string
  /** The text may be empty. */
  value: string
}

export interface IssueValue {
  /** Lower case; empty where the value names no issuer (`;` forbids all). */
  issuerDomainName: string
  /** In the order of the record. A tag can appear twice; the caller decides what that means. */
  parameters: IssueParameter[]
}

/** Labels and tags share one form: letters, digits and inner hyphens. */
const LDH = /^(?!-)[A-Za-z0-9-]+(?<!-)$/
const VALUE = /^[\x21-\x3a\x3c-\x7e]*$/

/** @returns undefined outside the grammar, such as for a trailing `;` behind a parameter */
export function parseIssueValue(text: string): IssueValue | undefined {
  const issuer = issuerPart(text)
  if (issuer !== '' && !issuer.split('.').every((label) => LDH.test(label))) return undefined
  const parameters = parseParameters(text)
  return parameters && { issuerDomainName: issuer.toLowerCase(), parameters }
}

/** The text at the place of the issuer's name, even when the rest is malformed. */
export function issuerPart(text: string): string {
  const end = text.indexOf(';')
  return trimWhiteSpace(end === -1 ? text : text.slice(0, end))
}

function parseParameters(text: string): IssueParameter[] | undefined {
  const start = text.indexOf(';')
  const list = start === -1 ? '' : trimWhiteSpace(text.slice(start + 1))
  if (list === '') return []
  const parameters: IssueParameter[] = []
  for (const part of list.split(';')) {
    const parameter = parseParameter(part)
    if (!parameter) return undefined
    parameters.push(parameter)
  }
  return parameters
}

function parseParameter(part: string): IssueParameter | undefined {
  const equals = part.indexOf('=')
  if (equals === -1) return undefined
  const tag = trimWhiteSpace(part.slice(0, equals))
  const value = trimWhiteSpace(part.slice(equals + 1))
  return LDH.test(tag) && VALUE.test(value) ? { tag: tag.toLowerCase(), value } : undefined
}

/** WSP in the ABNF is space and tab only; `trim` removes more. */
function trimWhiteSpace(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isWhiteSpace(text.charCodeAt(start))) start++
  while (end > start && isWhiteSpace(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

function isWhiteSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/**
 * All values of a tag. Two values make a CAA property unsatisfiable (RFC 8657 §3) and a validation record malformed.
 * @param tag in lower case
 */
export function parameterValues(issueValue: IssueValue, tag: string): string[] {
  return issueValue.parameters.filter((parameter) => parameter.tag === tag).map((parameter) => parameter.value)
}

/** The first tag that appears twice, known or not (draft-ietf-acme-dns-persist §9.3.1). */
export function repeatedTag(issueValue: IssueValue): string | undefined {
  const seen = new Set<string>()
  for (const { tag } of issueValue.parameters) {
    if (seen.has(tag)) return tag
    seen.add(tag)
  }
  return undefined
}
