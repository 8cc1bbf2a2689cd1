/**
 * Issue values in CAA properties (RFC 8659 §4.2 with erratum 7139, RFC 8657). The TXT records of
 * dns-persist-01 have them too (draft-ietf-acme-dns-persist §4.1).
 *
 *     issue-value = *WSP [issuer-domain-name *WSP] [";" *WSP [parameters *WSP]]
 *     parameters  = parameter *( *WSP ";" *WSP parameter )
 *     parameter   = tag *WSP "=" *WSP value
 *
 * Names and tags are returned in lower case; RFC 8659 leaves the case of tags open. `AccountURI`
 * must bind: skipping it as unknown would widen the permission.
 */

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
 * All values of a tag. Two values make a CAA property unsatisfiable (RFC 8657 §3) and a validation
 * record malformed.
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
