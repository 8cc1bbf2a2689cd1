/**
 * Checks the certificate of a tls-alpn-01 challenge (RFC 8737 §3, RFC 8738 §6): its content, and
 * that it is self-signed. Pure. The RFCs do not restrict validity period, subject and key usage, so
 * they are ignored.
 */

import { timingSafeEqual } from 'node:crypto'
import { type Certificate, parseCertificate, verifyCertificateSignature } from '../../src/shared/pki/certificate.ts'
import { DerError, DerReader } from '../../src/shared/pki/der.ts'
import { EXTENSION } from '../../src/shared/pki/oids.ts'
import type { Identifier } from '../../src/shared/protocol/identifier.ts'

interface ExpectedCertificate {
  /** Canonical, as in orders. */
  identifier: Identifier
  /** SHA-256 of the key authorization. */
  digest: Buffer
}

/**
 * Returns the error without quoting the certificate, or undefined if it is right. Accepts any
 * bytes.
 */
export function checkAcmeCertificate(der: Buffer, { identifier, digest }: ExpectedCertificate): string | undefined {
  const certificate = readCertificate(der)
  if (!certificate)
    return 'the certificate is malformed: not DER, an extension stands twice, or a list in it is too long'
  const { subjectAltNames, extensions } = certificate.tbs

  const isNamed = subjectAltNames.some((name) => isName(name, identifier))
  if (subjectAltNames.length === 0) return 'the certificate has no subject alternative name'
  if (!isNamed) return `the certificate is not for ${identifier.value}`
  if (subjectAltNames.length > 1) return `the certificate has other names beside ${identifier.value}`

  const acmeIdentifier = extensions.find(({ oid }) => oid === EXTENSION.acmeIdentifier)
  if (!acmeIdentifier) return 'the certificate has no acmeIdentifier extension'
  if (!acmeIdentifier.critical) return 'the acmeIdentifier extension is not critical'
  const found = readAuthorization(acmeIdentifier.value)
  if (!found) return 'the acmeIdentifier extension does not hold a SHA-256 digest'
  if (!timingSafeEqual(found, digest)) return 'the acmeIdentifier extension holds another digest'

  if (!certificate.signatureAlgorithm) return 'the certificate is signed with an algorithm that is not known here'
  return isSelfSigned(certificate) ? undefined : 'the certificate is not self-signed'
}

function readCertificate(der: Buffer): Certificate | undefined {
  try {
    return parseCertificate(der)
  } catch (error) {
    // The message of `error` would quote the certificate.
    if (error instanceof DerError) return undefined
    throw error
  }
}

/**
 * RFC 8737 §3: dNSName in A-labels, ignoring case. RFC 8738 §6: iPAddress; both sides use the
 * canonical text.
 */
function isName({ kind, value }: Certificate['tbs']['subjectAltNames'][number], identifier: Identifier): boolean {
  if (identifier.type === 'ip') return kind === 'iPAddress' && value === identifier.value
  return kind === 'dNSName' && value.toLowerCase() === identifier.value
}

/** `Authorization ::= OCTET STRING (SIZE (32))`. */
function readAuthorization(value: Buffer): Buffer | undefined {
  try {
    const reader = new DerReader(value)
    const digest = reader.octetString()
    reader.finish('Authorization')
    return digest.length === 32 ? digest : undefined
  } catch (error) {
    if (error instanceof DerError) return undefined
    throw error
  }
}

/** RFC 5280 §3.2: issuer and subject are equal, and the certificate's own key signed it. */
function isSelfSigned(certificate: Certificate): boolean {
  const { issuerDer, subjectDer, spki } = certificate.tbs
  return issuerDer.equals(subjectDer) && verifyCertificateSignature(certificate, spki.der)
}
