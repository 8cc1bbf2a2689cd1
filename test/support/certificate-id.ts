/** certIDs (RFC 9773 §4.1) as clients write them. On purpose, another library reads them from a certificate. */

import type { CertificateIdentity } from '../../src/shared/protocol/renewal-info.ts'
import { x509 } from '../unit/shared/pki/support.ts'

export function certIdOf(der: Buffer): string {
  const certificate = new x509.X509Certificate(der)
  const keyId = certificate.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId
  if (keyId === undefined) throw new Error('the certificate has no authorityKeyIdentifier')
  const [keyIdentifier, serialNumber] = [Buffer.from(keyId, 'hex'), Buffer.from(certificate.serialNumber, 'hex')]
  return renderCertId({ keyIdentifier, serialNumber })
}

export function renderCertId({ keyIdentifier, serialNumber }: CertificateIdentity): string {
  return `${keyIdentifier.toString('base64url')}.${serialNumber.toString('base64url')}`
}
