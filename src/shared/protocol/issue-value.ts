/**
 * Issue values: the text that names a certificate authority, with parameters, in CAA properties (RFC 8659 §4.2 with
 * erratum 7139, RFC 8657) and in the TXT records of dns-persist-01 (draft-ietf-acme-dns-persist §4.1).
 *
 *     issue-value = *WSP [issuer-domain-name *WSP] [";" *WSP [parameters *WSP]]
 *     parameters  = parameter *( *WSP ";" *WSP parameter )
 *     parameter   = tag *WSP "=" *WSP value
 *
 * Names and tags come out in lower case. RFC 8659 leaves the case of parameter tags open; a constraint that is spelled
 * `AccountURI` must bind, because a reader that skips it as unknown would widen what the domain's owner allowed.
 */

export interface IssueParameter {
  /** Lower case. */
  tag: string
  /** As written; may be empty. */
  value: string
}

export interface IssueValue {
  /** Lower case; empty where the value names nobody (`;` forbids every issuer). */
  issuerDomainName: string
  /** In the order of the record. A tag can stand twice: what that means, the reader of the tag decides. */
  parameters: IssueParameter[]
}

/** Labels and tags share one form: letters, digits and inner hyphens. */
const LDH = /^(?!-)[A-Za-z0-9-]+(?<!-)$/
const VALUE = /^[\x21-\x3a\x3c-\x7e]*$/

/** @returns undefined for text outside the grammar; a trailing `;` behind a parameter is outside. */
export function parseIssueValue(text: string): IssueValue | undefined {
  const issuer = issuerPart(text)
  if (issuer !== '' && !issuer.split('.').every((label) => LDH.test(label))) return undefined
  const parameters = parseParameters(text)
  return parameters && { issuerDomainName: issuer.toLowerCase(), parameters }
}

/** What stands where the issuer's name belongs, also of text that is malformed elsewhere. */
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

/** ABNF's WSP is space and tab, which is less than what `trim` takes. */
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
 * Every value a tag was given. More than one is a contradiction: such a CAA property is unsatisfiable (RFC 8657 §3), such
 * a validation record malformed.
 * @param tag in lower case
 */
export function parameterValues(issueValue: IssueValue, tag: string): string[] {
  return issueValue.parameters.filter((parameter) => parameter.tag === tag).map((parameter) => parameter.value)
}

/** The first tag, known or not, that stands more than once: "duplicate parameters" of draft-ietf-acme-dns-persist §9.3.1. */
export function repeatedTag(issueValue: IssueValue): string | undefined {
  const seen = new Set<string>()
  for (const { tag } of issueValue.parameters) {
    if (seen.has(tag)) return tag
    seen.add(tag)
  }
  return undefined
}
