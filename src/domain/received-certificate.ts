/**
 * Checks what a CA has sent for a CSR, before anybody sees it: the key of the CSR, exactly the
 * names of the order, validity, the chain up to a root, and the lint. Pure.
 */

import { type Certificate, parseCertificate, verifyCertificateSignature } from '../shared/pki/certificate.ts'
import { DerError } from '../shared/pki/der.ts'
import { lintTbsCertificate } from '../shared/pki/lint.ts'
import { commonNamesOf } from '../shared/pki/name.ts'
import { EXTENSION } from '../shared/pki/oids.ts'
import type { TbsCertificate } from '../shared/pki/tbs-certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'

export interface Expected {
  /** DER of the SubjectPublicKeyInfo in the CSR. */
  spki: Buffer
  identifiers: readonly Identifier[]
  /** The longest validity of the order's profile. */
  maxValidityDays: number
  /** What the client has asked for. */
  requested: { notBefore?: Date; notAfter?: Date }
  /** Key purposes of the order's profile, by configuration name. */
  extendedKeyUsages: readonly string[]
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

export type Verdict = { ok: true; received: ReceivedChain } | { ok: false; findings: readonly string[] }

const DAY_MS = 86_400_000
const SECOND_MS = 1_000
/** Clocks of two CAs differ. A client would refuse a certificate from the future. */
const CLOCK_SKEW_MS = 300_000
/** What public CAs put into every TLS certificate, whatever was asked for. */
const USUAL_KEY_PURPOSES: readonly string[] = ['server_auth', 'client_auth']
/** Real chains have at most five certificates. */
const MAX_CHAIN_LENGTH = 10

/** @param chain DER, the leaf first, each issuer behind what it has signed */
export function checkReceived(chain: readonly Buffer[], expected: Expected): Verdict {
  if (chain.length > MAX_CHAIN_LENGTH)
    return refused(`the chain has ${chain.length} certificates; ${MAX_CHAIN_LENGTH} are the most`)
  let parsed: Certificate[]
  try {
    parsed = chain.map(parseCertificate)
  } catch (error) {
    if (error instanceof DerError) return refused(`a certificate of the chain cannot be read: ${error.message}`)
    throw error
  }
  const [leaf, ...issuers] = parsed
  if (!leaf) return refused('the chain is empty')
  const lint = lintTbsCertificate(leaf.tbs)
  const findings = [...checkLeaf(leaf.tbs, expected), ...(expected.refusesLint ? lint : [])]
  const whole = completedBy(leaf, issuers, expected.trustAnchors)
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
  if (tbs.isCa) findings.push('it is a CA certificate')
  findings.push(...checkNames(tbs, identifiers), ...checkPurposes(tbs, expected))
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

/**
 * The client's CSR goes to the CA whole, and some copy its extensions. A precertificate has a
 * critical poison extension (RFC 6962 §3.1).
 */
function checkPurposes(tbs: TbsCertificate, { extendedKeyUsages }: Expected): string[] {
  const wanted = [...extendedKeyUsages, ...USUAL_KEY_PURPOSES]
  const extra = tbs.extendedKeyUsages.filter((purpose) => !wanted.includes(purpose))
  return [
    ...extra.slice(0, 5).map((purpose) => `it has the key purpose ${purpose}, which its profile has not`),
    ...tbs.unknownCriticalExtensions.slice(0, 5).map((oid) => `its critical extension ${oid} is not known`),
  ]
}

/** Every name it has in the SAN and as common name; a name of another kind is one too many. */
function checkNames(tbs: TbsCertificate, identifiers: readonly Identifier[]): string[] {
  const ordered = new Set(identifiers.map(({ type, value }) => `${type}:${value}`))
  const certified = [
    ...tbs.dnsNames.map((name) => `dns:${name.toLowerCase()}`),
    ...tbs.ipAddresses.map((address) => `ip:${address}`),
  ]
  const common = commonNamesOf(tbs.subject).map((name) => name.toLowerCase())
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

/** A CA may leave out the root, even where it signed the leaf itself. */
function completedBy(leaf: Certificate, issuers: readonly Certificate[], anchors: readonly Buffer[]): Certificate[] {
  if (issuers.length > 0) return [...issuers]
  return anchors
    .map(parseCertificate)
    .filter((anchor) => isIssuedBy(leaf, anchor))
    .slice(0, 1)
}

function checkChain(chain: readonly Certificate[], { trustAnchors, now }: Expected): string[] {
  if (chain.length < 2) return ['the chain has no issuer']
  const findings: string[] = []
  for (const [index, above] of chain.slice(1).entries()) {
    if (!above.tbs.isCa) findings.push(`certificate ${index + 2} of the chain is no CA certificate`)
    if (above.tbs.notAfter <= now || above.tbs.notBefore > now)
      findings.push(`certificate ${index + 2} of the chain is not valid now`)
    if (!isIssuedBy(chain[index] as Certificate, above))
      findings.push(`certificate ${index + 1} of the chain was not signed by the next one`)
  }
  const top = chain.at(-1) as Certificate
  const anchors = trustAnchors.map(parseCertificate)
  const anchor = anchors.find(({ der }) => der.equals(top.der)) ?? anchors.find((one) => isIssuedBy(top, one))
  if (trustAnchors.length > 0 && !anchor) findings.push('the chain does not end at one of the trust_anchors')
  const path = anchor && !anchor.der.equals(top.der) ? [...chain, anchor] : chain
  return [...findings, ...checkIssuing(path)]
}

/** RFC 5280 §6.1.4 (l) to (n). */
function checkIssuing(path: readonly Certificate[]): string[] {
  const findings: string[] = []
  let below = 0
  for (const [index, { tbs }] of path.entries()) {
    if (index === 0) continue
    const named = `certificate ${index + 1} of the chain`
    const namesUsages = tbs.extensions.some(({ oid }) => oid === EXTENSION.keyUsage)
    if (namesUsages && !tbs.keyUsages.includes('key_cert_sign')) findings.push(`${named} may not sign certificates`)
    if (tbs.pathLength !== undefined && below > tbs.pathLength)
      findings.push(`${named} allows ${tbs.pathLength} CA certificates below it, and has ${below}`)
    if (!tbs.issuerDer.equals(tbs.subjectDer)) below++
  }
  return findings
}

function isIssuedBy(certificate: Certificate, issuer: Certificate): boolean {
  return (
    certificate.tbs.issuerDer.equals(issuer.tbs.subjectDer) &&
    verifyCertificateSignature(certificate, issuer.tbs.spki.der)
  )
}
