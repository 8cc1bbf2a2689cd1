/** One certificate as a person reads it: its own words, its chain, and when it should be renewed. */

import type { CommonQueryMethods } from 'slonik'
import { type RenewalWindow, renewalWindow, type WindowPolicy } from '../../domain/renewal-window.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import type { Extension } from '../../shared/pki/extensions.ts'
import { formatName } from '../../shared/pki/name.ts'
import { EXTENSION } from '../../shared/pki/oids.ts'
import { hashSpki, type Spki } from '../../shared/pki/spki.ts'
import type { TbsCertificate } from '../../shared/pki/tbs-certificate.ts'
import type { FoundCertificate } from '../../store/certificate-list.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { type CertificateFacts, readCertificateFacts } from './certificate-facts.ts'

export interface ShownExtension {
  name: string
  critical: boolean
  /** Readable values; of an extension that is not known here, its octets in hexadecimal. */
  values: readonly string[]
}

export interface ChainLink {
  subject: string
  notAfter: Date
  /** SHA-256 in lower-case hexadecimal. */
  fingerprint: string
}

export interface CertificateDetails {
  subject: string
  issuer: string
  signatureAlgorithm: string
  key: { type: string; spkiSha256: string }
  extensions: readonly ShownExtension[]
  /** From the issuer upwards. */
  chain: readonly ChainLink[]
  facts: CertificateFacts
  /** Of renewal information (RFC 9773). */
  renewal: RenewalWindow
}

/** @param certificate with its DER */
export async function certificateDetails(
  db: CommonQueryMethods,
  certificate: FoundCertificate,
  policy: WindowPolicy,
): Promise<CertificateDetails> {
  const { tbs, signatureAlgorithm } = parseCertificate(certificate.der)
  const spki = hashSpki(tbs.spki)
  const facts = await readCertificateFacts(db, { id: certificate.id, orderId: certificate.order_id, spki })
  const chain = (await findIssuerChain(queriesOf(db), certificate.issuer_fingerprint)) ?? []
  return {
    subject: formatName(tbs.subject),
    issuer: formatName(tbs.issuer),
    signatureAlgorithm: signatureAlgorithm ?? tbs.signatureAlgorithm.oid,
    key: { type: keyType(tbs.spki), spkiSha256: spki.toString('hex') },
    extensions: tbs.extensions.map((extension) => shownExtension(extension, tbs)),
    chain: chain.map(linkOf),
    facts,
    renewal: renewalOf(certificate, facts, policy),
  }
}

function renewalOf(
  { not_before, not_after, revoked_at }: FoundCertificate,
  { window_start, window_end, explanation_url }: CertificateFacts,
  policy: WindowPolicy,
): RenewalWindow {
  const window = window_start && window_end && { start: window_start, end: window_end }
  const advice = window ? { window, explanationUrl: explanation_url ?? undefined } : undefined
  const times = { notBefore: not_before, notAfter: not_after, revokedAt: revoked_at ?? undefined }
  return renewalWindow({ ...times, advice }, policy, new Date())
}

export function linkOf(der: Buffer): ChainLink {
  const { tbs } = parseCertificate(der)
  return { subject: formatName(tbs.subject), notAfter: tbs.notAfter, fingerprint: fingerprintSha256(der) }
}

export function keyType(spki: Spki): string {
  if (spki.kind === 'rsa') return `RSA ${spki.bits}`
  if (spki.kind === 'ec') return `ECDSA ${spki.curve}`
  return spki.kind === 'ed25519' ? 'Ed25519' : spki.oid
}

/** Name of an extension as RFC 5280 spells it, and its values in a certificate. */
const SHOWN: Readonly<Record<string, readonly [name: string, values: (tbs: TbsCertificate) => readonly string[]]>> = {
  [EXTENSION.subjectAltName]: [
    'Subject Alternative Name',
    ({ subjectAltNames }) => subjectAltNames.map(({ kind, value }) => `${kind}: ${value}`),
  ],
  [EXTENSION.basicConstraints]: [
    'Basic Constraints',
    ({ isCa, pathLength }) => [`cA: ${isCa}`, ...(pathLength === undefined ? [] : [`pathLen: ${pathLength}`])],
  ],
  [EXTENSION.keyUsage]: ['Key Usage', ({ keyUsages }) => keyUsages],
  [EXTENSION.extendedKeyUsage]: ['Extended Key Usage', ({ extendedKeyUsages }) => extendedKeyUsages],
  [EXTENSION.authorityKeyIdentifier]: [
    'Authority Key Identifier',
    ({ authorityKeyIdentifier }) => [authorityKeyIdentifier?.toString('hex') ?? ''],
  ],
  [EXTENSION.subjectKeyIdentifier]: [
    'Subject Key Identifier',
    ({ subjectKeyIdentifier }) => [subjectKeyIdentifier?.toString('hex') ?? ''],
  ],
  [EXTENSION.crlDistributionPoints]: [
    'CRL Distribution Points',
    ({ crlDistributionPointUrls }) => crlDistributionPointUrls,
  ],
  [EXTENSION.authorityInfoAccess]: [
    'Authority Information Access',
    ({ ocspUrls, caIssuersUrls }) => [
      ...ocspUrls.map((url) => `OCSP: ${url}`),
      ...caIssuersUrls.map((url) => `CA Issuers: ${url}`),
    ],
  ],
  [EXTENSION.certificatePolicies]: ['Certificate Policies', ({ policyOids }) => policyOids],
}

function shownExtension({ oid, critical, value }: Extension, tbs: TbsCertificate): ShownExtension {
  const known = SHOWN[oid]
  return known
    ? { name: known[0], critical, values: known[1](tbs) }
    : { name: oid, critical, values: [value.toString('hex')] }
}
