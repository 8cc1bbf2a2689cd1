/** Checks of the CA certificates in a path (RFC 5280 §6.1), beyond signatures and times. Pure. */

import { type Certificate, verifyCertificateSignature } from './certificate.ts'
import { checkNameConstraints, type NameConstraints, nameConstraintsOf } from './name-constraints.ts'
import { EXTENSION } from './oids.ts'

/** By name and signature. @throws DerError when the issuer's key cannot be read */
export function isIssuedBy(certificate: Certificate, issuer: Certificate): boolean {
  return (
    certificate.tbs.issuerDer.equals(issuer.tbs.subjectDer) &&
    verifyCertificateSignature(certificate, issuer.tbs.spki.der)
  )
}

const isSelfIssued = ({ tbs }: Certificate): boolean => tbs.issuerDer.equals(tbs.subjectDer)

/**
 * RFC 5280 §6.1.4 (k) to (n): whether each may issue, and with so many CAs below it.
 * @param issuers from the leaf's issuer upwards
 * @param first number of that issuer, for the reader
 */
export function checkIssuing(issuers: readonly Certificate[], first: number): string[] {
  const findings: string[] = []
  let below = 0
  for (const [index, issuer] of issuers.entries()) {
    const { tbs } = issuer
    const named = `certificate ${index + first} of the chain`
    if (!tbs.isCa) findings.push(`${named} is no CA certificate`)
    const namesUsages = tbs.extensions.some(({ oid }) => oid === EXTENSION.keyUsage)
    if (namesUsages && !tbs.keyUsages.includes('key_cert_sign')) findings.push(`${named} may not sign certificates`)
    if (tbs.pathLength !== undefined && below > tbs.pathLength)
      findings.push(`${named} allows ${tbs.pathLength} CA certificates below it, and has ${below}`)
    if (!isSelfIssued(issuer)) below++
  }
  return findings
}

/** The name constraints of each certificate that has some. @throws DerError */
export function constraintsOf(issuers: readonly Certificate[]): NameConstraints[] {
  return issuers.flatMap(({ tbs }) => nameConstraintsOf(tbs) ?? [])
}

/**
 * RFC 5280 §6.1.3 (b) and (c): the names of each certificate, by the constraints of all above it. A self-issued CA
 * certificate is exempt.
 * @param path the leaf first
 * @throws DerError for constraints that cannot be read
 */
export function checkConstrained(path: readonly Certificate[]): string[] {
  return path.flatMap((certificate, index) => {
    if (index > 0 && isSelfIssued(certificate)) return []
    const refusal = checkNameConstraints(certificate.tbs, constraintsOf(path.slice(index + 1)))
    return refusal === undefined ? [] : [`name constraints forbid a name of certificate ${index + 1}: ${refusal}`]
  })
}
