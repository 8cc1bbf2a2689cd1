/**
 * The content of a certificate: an order's TBSCertificate under its profile, and the findings of the lint. Pure.
 *
 * The choices are in docs/decisions/certificate-content.md.
 */

import type { SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import { parseTbsCertificate } from '../shared/pki/certificate.ts'
import { keyUsagesFor } from '../shared/pki/extensions.ts'
import { lintTbsCertificate } from '../shared/pki/lint.ts'
import { encodeCommonName, parseName } from '../shared/pki/name.ts'
import { checkNameConstraints, type NameConstraints } from '../shared/pki/name-constraints.ts'
import type { Spki } from '../shared/pki/spki.ts'
import { buildTbsCertificate } from '../shared/pki/tbs-certificate.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import type { CertificateProfile, Validity } from './certificate-profile.ts'

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
