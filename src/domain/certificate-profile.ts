/**
 * CA profiles (`ca.profiles`; draft-ietf-acme-profiles): purpose, keys, issuer and validity of certificates.
 *
 * RFC 5280 §4.1.2.5; docs/decisions/certificate-content.md. Wishes of an order are in `order-request.ts`.
 * Also builds an order's TBSCertificate under its profile, and lints it. Pure.
 */

import { type KeyKind, SIGNATURE_ALGORITHMS, type SignatureAlgorithm, type Spki } from '../shared/pki/algorithms.ts'
import { parseTbsCertificate } from '../shared/pki/certificate.ts'
import { keyUsagesFor } from '../shared/pki/extensions.ts'
import { lintTbsCertificate } from '../shared/pki/lint.ts'
import { encodeCommonName, parseName } from '../shared/pki/name.ts'
import { checkNameConstraints, type NameConstraints } from '../shared/pki/name-constraints.ts'
import type { ExtendedKeyUsage, KeyUsage } from '../shared/pki/oids.ts'
import { buildTbsCertificate } from '../shared/pki/tbs-certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import { type BackendName, isSigner } from './csr-issuance.ts'
import { constraintRefusal } from './identifier-policy.ts'

export const DEFAULT_PROFILE = 'default'

export interface CertificateProfile {
  name: string
  description: string
  keyUsages: readonly KeyUsage[]
  extendedKeyUsages: readonly ExtendedKeyUsage[]
  keyTypes: readonly SubjectKeyType[]
  validity: ValidityPolicy
  /** Issuer ids at the signer; empty takes the signer's first issuer. */
  issuerIds: readonly string[]
  /** Backends in the order in which they are asked; most profiles have one. */
  backends: readonly BackendName[]
}

/** The default alone is no choice, so the directory advertises no profiles. */
export function hasChoiceOfProfiles(profiles: ReadonlyMap<string, unknown>): boolean {
  return profiles.size > 1
}

interface IssuerFacts {
  id: string
  signatureAlgorithm: SignatureAlgorithm
  notBefore: Date
  notAfter: Date
  constraints: readonly NameConstraints[]
}

/** The issuers of the profile that are valid now. A profile that names none takes the first valid one. */
function issuersOf<I extends IssuerFacts>(issuers: readonly I[], issuerIds: readonly string[], now: Date): I[] {
  const isValid = ({ notBefore, notAfter }: I) => notBefore <= now && now < notAfter
  if (issuerIds.length === 0) return issuers.filter(isValid).slice(0, 1)
  return issuerIds.flatMap((id) => issuers.find((issuer) => issuer.id === id && isValid(issuer)) ?? [])
}

/**
 * Among several issuers, prefers those whose name constraints admit the names, then the kind of the request's key, so that
 * RSA clients get RSA chains.
 * @param subjectKind `kind` of the CSR's key
 */
export function chooseIssuer<I extends IssuerFacts>(
  issuers: readonly I[],
  issuerIds: readonly string[],
  subjectKind: string,
  now: Date,
  identifiers: readonly Identifier[] = [],
): I | undefined {
  const usable = issuersOf(issuers, issuerIds, now)
  if (usable.length < 2) return usable[0]
  const admitting = usable.filter(({ constraints }) => identifiers.every((one) => !constraintRefusal(one, constraints)))
  const candidates = admitting.length > 0 ? admitting : usable
  const isRsa = ({ signatureAlgorithm }: I) => SIGNATURE_ALGORITHMS[signatureAlgorithm].keyKind === 'rsa'
  return candidates.find((issuer) => isRsa(issuer) === (subjectKind === 'rsa')) ?? candidates[0]
}

/**
 * The name constraints of each issuer that may sign under one of these profiles. Empty when another CA is asked
 * first, since only that CA knows its limits.
 */
export function constraintsOfProfiles(
  issuers: readonly IssuerFacts[],
  profiles: Iterable<Pick<CertificateProfile, 'issuerIds' | 'backends'>>,
  now: Date,
): (readonly NameConstraints[])[] {
  const found: (readonly NameConstraints[])[] = []
  for (const { issuerIds, backends } of profiles) {
    const [first] = backends
    if (first !== undefined && !isSigner(first)) return []
    for (const { constraints } of issuersOf(issuers, issuerIds, now)) found.push(constraints)
  }
  return found
}

const DAY_MS = 86_400_000
const SECOND_MS = 1_000

export interface ValidityPolicy {
  validityDays: number
  maxValidityDays: number
  /** How far notBefore is in the past, for clients with slow clocks. */
  backdateSeconds: number
}

export interface RequestedValidity {
  notBefore?: Date
  notAfter?: Date
}

export interface Validity {
  notBefore: Date
  notAfter: Date
}

/**
 * The requested period, otherwise the profile's days from a back-dated start, notAfter included. It
 * stays within the issuer's period, so that a CA younger than the back-dating can issue.
 * @throws Problem malformed when nothing is left, because the issuer ends before the requested
 *   start
 */
export function certificateValidity(
  requested: RequestedValidity,
  policy: ValidityPolicy,
  now: Date,
  issuer: Validity,
): Validity {
  const start = requested.notBefore ?? earliestStart(policy, now)
  const notBefore = new Date(Math.max(start.getTime(), issuer.notBefore.getTime()))
  const days = Math.min(policy.validityDays, policy.maxValidityDays)
  const wanted = requested.notAfter ?? new Date(notBefore.getTime() + days * DAY_MS - SECOND_MS)
  const notAfter = new Date(Math.min(wanted.getTime(), issuer.notAfter.getTime()))
  if (notBefore >= notAfter)
    throw new Problem(
      'malformed',
      `notBefore must lie before ${renderTimestamp(notAfter)}, where the certificate would end with its issuer; make a new order`,
    )
  return { notBefore, notAfter }
}

/** The start of a period for which the client asked none. */
export function earliestStart(policy: ValidityPolicy, now: Date): Date {
  return new Date(Math.floor(now.getTime() / SECOND_MS) * SECOND_MS - policy.backdateSeconds * SECOND_MS)
}

/** Kinds of key that a profile certifies. src/shared/pki checks sizes and weak keys. */
export const SUBJECT_KEY_TYPES = ['RSA', 'P-256', 'P-384', 'P-521', 'Ed25519'] as const
export type SubjectKeyType = (typeof SUBJECT_KEY_TYPES)[number]

export const SUBJECT_KEY_KINDS: Record<SubjectKeyType, KeyKind> = {
  RSA: 'rsa',
  'P-256': 'ec',
  'P-384': 'ec',
  'P-521': 'ec',
  Ed25519: 'ed25519',
}

/** The reason for a refusal, or undefined. */
export function checkSubjectKeyType(spki: Spki, accepted: readonly SubjectKeyType[]): string | undefined {
  const type = subjectKeyType(spki)
  if (type !== undefined && accepted.includes(type)) return undefined
  return `keys of type ${type ?? 'unknown'} are not accepted by this certificate profile; use ${accepted.join(', ')}`
}

/** The algorithms that a key signs with where nobody says another one. */
export const USUAL_ALGORITHMS: Readonly<Record<SubjectKeyType, SignatureAlgorithm>> = {
  'P-256': 'SHA256withECDSA',
  'P-384': 'SHA384withECDSA',
  'P-521': 'SHA512withECDSA',
  Ed25519: 'Ed25519',
  RSA: 'SHA256withRSA',
}

export function subjectKeyType(spki: Spki): SubjectKeyType | undefined {
  switch (spki.kind) {
    case 'rsa':
      return 'RSA'
    case 'ec':
      return spki.curve
    case 'ed25519':
      return 'Ed25519'
    case 'unsupported':
      return undefined
  }
}

interface ContentRequest {
  subject: { spki: Spki; identifiers: readonly Identifier[]; commonName: string | undefined }
  profile: Pick<CertificateProfile, 'keyUsages' | 'extendedKeyUsages'>
  issuer: { nameDer: Buffer; keyIdentifier: Buffer; signatureAlgorithm: SignatureAlgorithm }
  serialNumber: Buffer
  validity: Validity
  caIssuersUrls: readonly string[]
  crlUrls: readonly string[]
  policyOids: readonly string[]
}

/** The subject is left empty when the issuer's constraints of directory names do not admit it (RFC 5280 §4.2.1.10). */
export function admittedCommonName(
  commonName: string | undefined,
  constraints: readonly NameConstraints[],
): string | undefined {
  if (commonName === undefined || constraints.length === 0) return commonName
  const subject = parseName(encodeCommonName(commonName))
  return checkNameConstraints({ subject, subjectAltNames: [] }, constraints) === undefined ? commonName : undefined
}

/** @property findings of the lint; such a certificate is never signed */
export interface CertificateContent {
  tbs: Buffer
  findings: readonly string[]
}

export function contentOf(request: ContentRequest): CertificateContent {
  const { subject, profile, issuer, validity } = request
  const { spki, identifiers } = subject
  // Plain members: this runs for every certificate, and a spread costs it 15 µs.
  const tbs = buildTbsCertificate({
    serialNumber: request.serialNumber,
    issuerNameDer: issuer.nameDer,
    authorityKeyIdentifier: issuer.keyIdentifier,
    signatureAlgorithm: issuer.signatureAlgorithm,
    notBefore: validity.notBefore,
    notAfter: validity.notAfter,
    commonName: subject.commonName,
    spki: spki.der,
    dnsNames: valuesOf(identifiers, 'dns'),
    ipAddresses: valuesOf(identifiers, 'ip'),
    keyUsages: spki.kind === 'unsupported' ? profile.keyUsages : keyUsagesFor(spki.kind, profile.keyUsages),
    extendedKeyUsages: profile.extendedKeyUsages,
    caIssuersUrls: request.caIssuersUrls,
    policyOids: request.policyOids,
    crlDistributionPointUrls: request.crlUrls,
  })
  return { tbs, findings: lintTbsCertificate(parseTbsCertificate(tbs)) }
}

function valuesOf(identifiers: readonly Identifier[], type: Identifier['type']): string[] {
  return identifiers.filter((identifier) => identifier.type === type).map(({ value }) => value)
}
