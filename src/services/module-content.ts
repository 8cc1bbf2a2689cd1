/** The TBSCertificate that a CA module signs: that of an order under its profile. */

import type { BuildContent } from '../ca/module/signing-steps.ts'
import { admittedCommonName, contentOf } from '../domain/certificate-content.ts'
import { certificateValidity } from '../domain/certificate-profile.ts'
import { commonNameOf } from '../domain/csr-check.ts'
import { parseCsr } from '../shared/pki/csr.ts'
import type { IssuancePolicy } from './issuance.ts'
import type { SerialNumberSource } from './serial-number.ts'

/** CRLs are signed by the signer alone, so only the module can name one. */
export function moduleContent(
  { profiles, caIssuersUrls, policyOids }: Pick<IssuancePolicy, 'profiles' | 'caIssuersUrls' | 'policyOids'>,
  serialNumber: SerialNumberSource,
): BuildContent {
  return async ({ csr: der, identifiers, profile: name, notBefore, notAfter }, issuer) => {
    const profile = profiles.get(name)
    if (!profile) throw new Error(`there is no profile ${name} any more`)
    const csr = parseCsr(der)
    return contentOf({
      subject: { spki: csr.spki, identifiers, commonName: admittedCommonName(commonNameOf(csr), issuer.constraints) },
      profile,
      issuer,
      policyOids,
      serialNumber: await serialNumber(),
      validity: certificateValidity({ notBefore, notAfter }, profile.validity, new Date(), issuer),
      caIssuersUrls: issuer.caIssuersUrls ?? caIssuersUrls,
      crlUrls: issuer.crlUrls,
    })
  }
}
