/**
 * What a CAA record set says about one issuance (RFC 8659 §4, RFC 8657). Pure; finding the set is `workers/caa.ts`.
 *
 * Everything that is not understood forbids: an unknown critical property, an issue value outside the grammar, a parameter
 * that contradicts itself. Only a set without any property for the request at hand permits by its silence.
 */

import { type IssueValue, issuerPart, parameterValues, parseIssueValue } from './issue-value.ts'

export interface CaaProperty {
  /** Bit 0 of the flags; the other bits mean nothing (RFC 8659 §4.1). */
  critical: boolean
  /** Any case. */
  tag: string
  value: string
}

export interface CaaRequest {
  /** Ordered with `*.`. */
  wildcard: boolean
  /** Issuer domain names of this service, lower case. */
  identities: readonly string[]
  /** Only whether the records name this service: their parameters (RFC 8657) are judged by whoever asks. */
  issuerOnly?: boolean
  /** URL of the account that asks. */
  accountUri: string
  /** The method that showed control; undefined where none did, which satisfies no `validationmethods`. */
  method: string | undefined
}

/** `reason` is in our words: no byte of a record is in it. */
export type CaaDecision = { permitted: true } | { permitted: false; reason: string }

/**
 * Properties that a critical flag may stand on. `iodef` asks for reports, which nobody has to send (RFC 8659 §4.4);
 * `issuemail` is about other certificates than those for names of servers (RFC 9495 §3).
 */
const UNDERSTOOD = new Set(['issue', 'issuewild', 'iodef', 'issuemail'])

/** The relevant record set (RFC 8659 §3) may be empty. */
export function evaluateCaa(records: readonly CaaProperty[], request: CaaRequest): CaaDecision {
  const properties = records.map((record) => ({ ...record, tag: record.tag.toLowerCase() }))
  if (properties.some(({ critical, tag }) => critical && !UNDERSTOOD.has(tag)))
    return { permitted: false, reason: 'they have a critical property that this server does not know' }

  const governing = governingProperties(properties, request.wildcard)
  if (governing.length === 0) return { permitted: true }
  const obstacles = governing.map(({ value }) => obstacleIn(value, request))
  if (obstacles.includes('none')) return { permitted: true }
  // The nearest miss helps most: a record that names this server and binds it to something else.
  const nearest = (['method', 'account', 'malformed'] as const).find((obstacle) => obstacles.includes(obstacle))
  return { permitted: false, reason: REASONS[nearest ?? 'issuer'] }
}

/** `issuewild` counts for wildcards only, and where there is one it counts alone (RFC 8659 §4.3). */
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

/** What keeps one property from authorizing this request (RFC 8659 §4.2, RFC 8657 §3 and §4). */
function obstacleIn(text: string, request: CaaRequest): Obstacle {
  const value = parseIssueValue(text)
  if (!value) return request.identities.includes(issuerPart(text).toLowerCase()) ? 'malformed' : 'issuer'
  if (!request.identities.includes(value.issuerDomainName)) return 'issuer'
  if (request.issuerOnly) return 'none'
  if (!admitsAccount(value, request.accountUri)) return 'account'
  return admitsMethod(value, request.method) ? 'none' : 'method'
}

/** Compared as text: a URI in another spelling is one that this server never gave to anybody (RFC 8657 §3). */
function admitsAccount(value: IssueValue, accountUri: string): boolean {
  const uris = parameterValues(value, 'accounturi')
  return uris.length === 0 || (uris.length === 1 && uris[0] === accountUri)
}

const METHOD_LIST = /^[A-Za-z0-9-]+(?:,[A-Za-z0-9-]+)*$/

/** RFC 8657 §4. An empty list admits no method. */
function admitsMethod(value: IssueValue, method: string | undefined): boolean {
  const [list, ...more] = parameterValues(value, 'validationmethods')
  if (list === undefined) return true
  return more.length === 0 && method !== undefined && METHOD_LIST.test(list) && list.split(',').includes(method)
}

/** How long a check stands for issuances under the same authorization (BR 3.2.2.8). */
const CHECK_LIFE_MS = 8 * 3_600_000

export function isCaaCheckFresh(checkedAt: Date, now: Date): boolean {
  return now.getTime() - checkedAt.getTime() < CHECK_LIFE_MS
}
