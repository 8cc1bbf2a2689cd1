/** The certID of a certificate (RFC 9773 §4.1), written a second time on purpose. */

import { x509 } from '../unit/pki/support.ts'

export function certIdOf(der: Buffer): string {
  const certificate = new x509.X509Certificate(der)
  const keyId = certificate.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId
  if (keyId === undefined) throw new Error('the certificate has no authorityKeyIdentifier')
  const parts = [keyId, certificate.serialNumber].map((hex) => Buffer.from(hex, 'hex').toString('base64url'))
  return parts.join('.')
}
