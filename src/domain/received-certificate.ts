/**
 * Checks what a CA has sent for a CSR, before anybody sees it. Pure.
 *
 * The certificate must have the CSR's key and exactly the order's names, and nothing that this service would not
 * certify. It must have a chain up to a root, and pass the lint.
 *
 * The client's CSR goes to the CA whole, and some CAs copy from it. So content is measured as the signer measures it
 * (signer/policy.ts).
 */

import { type Certificate, parseCertificate, type TbsCertificate } from '../shared/pki/certificate.ts'
import { checkConstrained, checkIssuing, isIssuedBy } from '../shared/pki/certification-path.ts'
import { DerError } from '../shared/pki/der.ts'
import { keyUsagesFor } from '../shared/pki/extensions.ts'
import { lintTbsCertificate } from '../shared/pki/lint.ts'
import {
  ATTRIBUTE_SHORT_NAMES,
  CA_EXTENSION,
  COMMON_NAME,
  EXTENSION,
  type KeyUsage,
  SCT_LIST,
} from '../shared/pki/oids.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'

/** Content that a backend's certificates may have beyond their profile. */
export interface Accepted {
  /** Short names (RFC 4514 §3) or OIDs. */
  subjectAttributes: readonly string[]
  /** By configuration name, or OIDs. */
  keyPurposes: readonly string[]
  /** OIDs. */
  extensions: readonly string[]
  policyOids: readonly string[]
}

export interface Expected {
  /** DER of the SubjectPublicKeyInfo in the CSR. */
  spki: Buffer
  identifiers: readonly Identifier[]
  /** The longest validity of the order's profile. */
  maxValidityDays: number
  /** The validity that the client has asked for. */
  requested: { notBefore?: Date; notAfter?: Date }
  /** Key usages of the order's profile. */
  keyUsages: readonly KeyUsage[]
  /** Key purposes of the order's profile, by configuration name. */
  extendedKeyUsages: readonly string[]
  /** `ca.policy_oids` */
  policyOids: readonly string[]
  /** Exceptions that its backend's settings allow. */
  accepted: Accepted
  /** DER of the roots that chains must end at; none asks only for a chain that agrees with itself. */
  trustAnchors: readonly Buffer[]
  /** Whether a finding of the lint refuses the certificate. */
  refusesLint: boolean
  now: Date
}

export interface ReceivedChain {
  leaf: Certificate
  /** DER of the issuers from the leaf's upwards; the root only if it was sent or issued the leaf. */
  issuers: readonly [Buffer, ...Buffer[]]
  /** Findings of the lint that refuse nothing. */
  warnings: readonly string[]
}

/** The certificate with the key of the CSR; undefined when none was sent. */
export function leafOf(chain: readonly Buffer[], spki: Buffer): Buffer | undefined {
  return chain.find((der) => {
    try {
      return parseCertificate(der).tbs.spki.der.equals(spki)
    } catch (error) {
      if (error instanceof DerError) return false
      throw error
    }
  })
}

type Verdict = { ok: true; received: ReceivedChain } | { ok: false; findings: readonly string[] }

const DAY_MS = 86_400_000
const SECOND_MS = 1_000
/** Clocks of two CAs differ. A client would refuse a certificate from the future. */
const CLOCK_SKEW_MS = 300_000
/** Any CA may give a leaf these (RFC 5280 §4.2.1.3); by default the signer signs them, too. */
const USUAL_KEY_USAGES: readonly KeyUsage[] = ['digital_signature', 'key_encipherment', 'key_agreement']
/** RFC 8737 §3: acmeIdentifier belongs only in self-signed answers to challenges. */
const LEAF_EXTENSIONS: ReadonlySet<string> = new Set([
  ...Object.values(EXTENSION).filter((oid) => oid !== EXTENSION.acmeIdentifier),
  SCT_LIST,
])
/** Real chains have at most five certificates. */
const MAX_CHAIN_LENGTH = 10

/** @param chain DER, in any order: CAs made by hand send the root first, a certificate twice, or the leaf alone */
export function checkReceived(chain: readonly Buffer[], expected: Expected): Verdict {
  if (chain.length > MAX_CHAIN_LENGTH)
    return refused(`the chain has ${chain.length} certificates; ${MAX_CHAIN_LENGTH} are the most`)
  try {
    return judge(chain.map(parseCertificate), expected)
  } catch (error) {
    if (error instanceof DerError) return refused(`a certificate of the chain cannot be read: ${error.message}`)
    throw error
  }
}

function judge(sent: readonly Certificate[], expected: Expected): Verdict {
  const leaf = sent.find(({ tbs }) => tbs.spki.der.equals(expected.spki)) ?? sent[0]
  if (!leaf) return refused('the chain is empty')
  const lint = lintTbsCertificate(leaf.tbs)
  const findings = [...checkLeaf(leaf.tbs, expected), ...(expected.refusesLint ? lint : [])]
  const whole = pathAbove(leaf, sent, expected.trustAnchors)
  findings.push(...checkPeriod(leaf.tbs, whole[0]?.tbs, expected), ...checkChain([leaf, ...whole], expected))
  const [first, ...others] = whole.map(({ der }) => der)
  if (findings.length > 0 || !first) return { ok: false, findings }
  return { ok: true, received: { leaf, issuers: [first, ...others], warnings: expected.refusesLint ? [] : lint } }
}

const refused = (finding: string): Verdict => ({ ok: false, findings: [finding] })

/**
 * Whether a further chain fits the leaf as well.
 * @param issuers DER, from the leaf's issuer upwards
 */
export function checkAlternateChain(leaf: Buffer, issuers: readonly Buffer[], expected: Expected): boolean {
  try {
    return issuers.length > 0 && checkChain([leaf, ...issuers].map(parseCertificate), expected).length === 0
  } catch (error) {
    if (error instanceof DerError) return false
    throw error
  }
}

function checkLeaf(tbs: TbsCertificate, expected: Expected): string[] {
  const { spki, identifiers, maxValidityDays, requested, now } = expected
  const findings: string[] = []
  if (!tbs.spki.der.equals(spki)) findings.push('its key is not that of the CSR')
  if (tbs.isCa || tbs.pathLength !== undefined) findings.push('it is a CA certificate')
  findings.push(...checkNames(tbs, identifiers), ...CONTENT_CHECKS.flatMap((check) => check(tbs, expected)))
  if (tbs.notBefore > later(new Date(now.getTime() + CLOCK_SKEW_MS), requested.notBefore))
    findings.push(`it is not valid before ${tbs.notBefore.toISOString()}`)
  if (tbs.notAfter <= now) findings.push(`it has expired at ${tbs.notAfter.toISOString()}`)
  // notAfter is included (RFC 5280 §4.1.2.5).
  const lifetimeMs = tbs.notAfter.getTime() - tbs.notBefore.getTime() + SECOND_MS
  if (lifetimeMs > maxValidityDays * DAY_MS + SECOND_MS)
    findings.push(`it is valid for more than ${maxValidityDays} days`)
  return findings
}

/**
 * RFC 8555 §7.4: no content other than that requested. Only the issuer's own period may cut it, as it
 * does where the signer signs (domain/certificate-profile.ts).
 */
function checkPeriod(tbs: TbsCertificate, issuer: TbsCertificate | undefined, { requested }: Expected): string[] {
  const seconds = (date: Date) => Math.floor(date.getTime() / SECOND_MS)
  const findings: string[] = []
  const start = requested.notBefore && later(requested.notBefore, issuer?.notBefore)
  const end = requested.notAfter && earlier(requested.notAfter, issuer?.notAfter)
  if (start && seconds(tbs.notBefore) !== seconds(start))
    findings.push(`it begins at ${tbs.notBefore.toISOString()}, not at ${start.toISOString()} as requested`)
  if (end && seconds(tbs.notAfter) !== seconds(end))
    findings.push(`it ends at ${tbs.notAfter.toISOString()}, not at ${end.toISOString()} as requested`)
  return findings
}

const later = (date: Date, other: Date | undefined) => (other && other > date ? other : date)
const earlier = (date: Date, other: Date | undefined) => (other && other < date ? other : date)

type ContentCheck = (tbs: TbsCertificate, expected: Expected) => string[]

const CONTENT_CHECKS: readonly ContentCheck[] = [
  checkSubject,
  checkUsages,
  checkPurposes,
  checkExtensions,
  checkPolicies,
]

/** Common names are judged with the names. */
function checkSubject({ subject }: TbsCertificate, { accepted }: Expected): string[] {
  const types = new Set(subject.flat().map(({ oid }) => ATTRIBUTE_SHORT_NAMES.get(oid) ?? oid))
  return extra([...types], accepted.subjectAttributes, 'subject attribute', 'accepted.subject_attributes')
}

function checkUsages(tbs: TbsCertificate, { keyUsages }: Expected): string[] {
  const wanted = tbs.spki.kind === 'unsupported' ? keyUsages : keyUsagesFor(tbs.spki.kind, keyUsages)
  // RFC 5280 §4.2.1.3: without the extension the key may be used for anything.
  if (tbs.keyUsages.length === 0 && wanted.length > 0) return ['it has no key usage']
  return tbs.keyUsages
    .filter((usage) => !keyUsages.includes(usage) && !USUAL_KEY_USAGES.includes(usage))
    .map((usage) => `it has the key usage ${usage}, which its profile has not`)
}

function checkPurposes(tbs: TbsCertificate, { extendedKeyUsages, accepted }: Expected): string[] {
  const findings = extra(
    tbs.extendedKeyUsages,
    [...extendedKeyUsages, ...accepted.keyPurposes],
    'key purpose',
    'accepted.key_purposes',
  )
  // RFC 5280 §4.2.1.12: without the extension any purpose is allowed.
  if (extendedKeyUsages.length > 0 && !extendedKeyUsages.some((one) => tbs.extendedKeyUsages.includes(one)))
    findings.push(`it has none of the key purposes of its profile: ${extendedKeyUsages.join(', ')}`)
  return findings
}

/** A precertificate has a critical poison extension (RFC 6962 §3.1). */
function checkExtensions(tbs: TbsCertificate, { accepted }: Expected): string[] {
  const others = tbs.extensions.flatMap(({ oid }) => (LEAF_EXTENSIONS.has(oid) ? [] : [oid]))
  return [
    ...extra(others, accepted.extensions, 'extension', 'accepted.extensions'),
    ...tbs.unknownCriticalExtensions.slice(0, MAX_LISTED).map((oid) => `its critical extension ${oid} is not known`),
  ]
}

/** A policy may claim more than control of the names, such as extended validation (CA/Browser Forum EVG §7.1.6.4). */
function checkPolicies(tbs: TbsCertificate, { policyOids, accepted }: Expected): string[] {
  return extra(tbs.policyOids, [...policyOids, ...accepted.policyOids], 'certificate policy', 'accepted.policy_oids')
}

const MAX_LISTED = 5

/** @param key of the backend, which may allow it */
function extra(found: readonly string[], allowed: readonly string[], what: string, key: string): string[] {
  return found
    .filter((one) => !allowed.includes(one))
    .slice(0, MAX_LISTED)
    .map((one) => `it has the ${what} ${one}, which nothing allows (${key})`)
}

/** Every name it has in the SAN and as common name; a name of another kind is one too many. */
function checkNames(tbs: TbsCertificate, identifiers: readonly Identifier[]): string[] {
  const ordered = new Set(identifiers.map(({ type, value }) => `${type}:${value}`))
  const certified = [
    ...tbs.dnsNames.map((name) => `dns:${name.toLowerCase()}`),
    ...tbs.ipAddresses.map((address) => `ip:${address}`),
  ]
  const common = tbs.subject
    .flat()
    .flatMap(({ oid, value }) => (oid === COMMON_NAME ? [value?.toLowerCase() ?? 'a common name that is no text'] : []))
  const extra = [
    ...certified.filter((name) => !ordered.has(name)),
    ...common.filter((name) => !ordered.has(`dns:${name}`) && !ordered.has(`ip:${name}`)),
  ]
  const missing = [...ordered].filter((name) => !certified.includes(name))
  const findings: string[] = []
  if (extra.length > 0) findings.push(`it has names that the order has not: ${extra.slice(0, 5).join(', ')}`)
  if (missing.length > 0) findings.push(`it lacks names of the order: ${missing.slice(0, 5).join(', ')}`)
  if (tbs.subjectAltNames.length > tbs.dnsNames.length + tbs.ipAddresses.length)
    findings.push('it has a name that is neither a DNS name nor an address')
  return findings
}

/**
 * The issuers from the leaf's upwards, from the sent certificates or else the anchors. A CA may leave its root out,
 * so a root is needed only if it signed the leaf.
 */
function pathAbove(leaf: Certificate, sent: readonly Certificate[], trustAnchors: readonly Buffer[]): Certificate[] {
  const anchors = trustAnchors.map(parseCertificate)
  const path = [leaf]
  for (let below: Certificate | undefined = leaf; below && !isSelfSigned(below); ) {
    const top: Certificate = below
    const isNext = (one: Certificate) => !path.some(({ der }) => der.equals(one.der)) && isIssuedBy(top, one)
    below = sent.find(isNext) ?? anchors.find((one) => isNext(one) && (top === leaf || !isSelfSigned(one)))
    if (below) path.push(below)
  }
  return path.slice(1)
}

const isSelfSigned = (certificate: Certificate) => isIssuedBy(certificate, certificate)

function checkChain(chain: readonly Certificate[], { trustAnchors, now }: Expected): string[] {
  if (chain.length < 2) return ['the chain has no issuer']
  const findings: string[] = []
  for (const [index, above] of chain.slice(1).entries()) {
    if (above.tbs.notAfter <= now || above.tbs.notBefore > now)
      findings.push(`certificate ${index + 2} of the chain is not valid now`)
    if (!isIssuedBy(chain[index] as Certificate, above))
      findings.push(`certificate ${index + 1} of the chain was not signed by the next one`)
    // RFC 5280 §6.1.4 (o), §6.1.5 (f). Policy constraints are not processed.
    for (const oid of above.tbs.unknownCriticalExtensions.filter((one) => one !== CA_EXTENSION.nameConstraints))
      findings.push(`the critical extension ${oid} of certificate ${index + 2} of the chain is not known`)
  }
  const top = chain.at(-1) as Certificate
  const anchors = trustAnchors.map(parseCertificate)
  const anchor = anchors.find(({ der }) => der.equals(top.der)) ?? anchors.find((one) => isIssuedBy(top, one))
  if (trustAnchors.length > 0 && !anchor) findings.push('the chain does not end at one of the trust_anchors')
  const path = anchor && !anchor.der.equals(top.der) ? [...chain, anchor] : chain
  return [...findings, ...checkIssuing(path.slice(1), 2), ...checkConstrained(path)]
}
