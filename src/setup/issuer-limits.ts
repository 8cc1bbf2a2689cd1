/** What an issuer that is there already may certify: its certificate cannot be changed. */

import { parseCertificate } from '../shared/pki/certificate.ts'
import { constraintsOf } from '../shared/pki/certification-path.ts'
import { checkNameConstraints } from '../shared/pki/constrained-names.ts'
import { decodePem } from '../shared/pki/pem.ts'
import type { Answers } from './answers.ts'
import { type Facts, PLACES } from './facts.ts'

/** @returns what is wrong with the domains, where the issuer's name constraints leave one out (RFC 5280 §4.2.1.10) */
export function outsideIssuer(
  { domains }: Pick<Answers, 'domains'>,
  { files }: Pick<Facts, 'files'>,
): string | undefined {
  const constraints = constraintsOf(decodePem(files[PLACES.issuer] ?? '').map(({ der }) => parseCertificate(der)))
  const isOutside = (value: string) =>
    checkNameConstraints({ subject: [], subjectAltNames: [{ kind: 'dNSName', value }] }, constraints) !== undefined
  const outside = domains.find(isOutside)
  return outside === undefined
    ? undefined
    : `has ${outside}, which the name constraints of the issuer leave out; it takes a new issuer (docs/operations/signer.md)`
}
