import { parseCertificate } from '../../src/shared/pki/certificate.ts'

/** The certID of a certificate (RFC 9773 §4.1); undefined for one without authorityKeyIdentifier. */
export function certIdOf(der: Buffer): string | undefined {
  const { serialNumber, authorityKeyIdentifier } = parseCertificate(der).tbs
  if (!authorityKeyIdentifier) return undefined
  return `${authorityKeyIdentifier.toString('base64url')}.${serialNumber.toString('base64url')}`
}
