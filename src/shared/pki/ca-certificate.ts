/**
 * The contents that are signed for a new CA key: TBSCertificate of a root or intermediate CA
 * (RFC 5280 §4.2.1). Also the PKCS#10 request (RFC 2986).
 */

import { parseSpki, subjectKeyIdentifier } from './algorithms.ts'
import { contextConstructedTag, TAG } from './der.ts'
import { type DerWriter, encodeDer } from './der-writer.ts'
import {
  writeAuthorityInfoAccess,
  writeAuthorityKeyIdentifier,
  writeCrlDistributionPoints,
  writeExtension,
  writeKeyUsage,
  writeSubjectKeyIdentifier,
} from './extensions.ts'
import { type NameConstraints, writeNameConstraints } from './name-constraints.ts'
import { EXTENSION, EXTENSION_REQUEST } from './oids.ts'
import { type TbsFields, writeUpToExtensions } from './tbs-certificate.ts'

interface CaSubject {
  nameDer: Buffer
  /** DER of the SubjectPublicKeyInfo. */
  spki: Buffer
  /** Most CA certificates below this one; undefined for any number. */
  pathLength: number | undefined
}

interface CaCertificateInput extends CaSubject, TbsFields {
  /** The issuer's subjectKeyIdentifier. */
  authorityKeyIdentifier: Buffer
  constraints?: NameConstraints | undefined
  /** Where the issuer's CRL is; empty omits the extension. */
  crlUrls?: readonly string[]
  /** Where the issuer's certificate is; empty omits the extension. */
  caIssuersUrls?: readonly string[]
}

type RootInput = Omit<CaCertificateInput, 'issuerNameDer' | 'authorityKeyIdentifier'>

/** DER of the TBSCertificate of a root: issuer equals subject, and the two key identifiers are equal. */
export function buildRootTbsCertificate(input: RootInput): Buffer {
  return buildCaTbsCertificate({
    ...input,
    issuerNameDer: input.nameDer,
    authorityKeyIdentifier: keyIdentifierOf(input),
  })
}

const keyIdentifierOf = ({ spki }: CaSubject) => subjectKeyIdentifier(parseSpki(spki).keyBits)

/** DER of the TBSCertificate of a CA. */
export function buildCaTbsCertificate(input: CaCertificateInput): Buffer {
  return encodeDer((writer) =>
    writer.sequence(() => {
      writeUpToExtensions(writer, input, input.nameDer)
      writer.constructed(contextConstructedTag(3), () =>
        writer.sequence(() => {
          writeCaExtensions(writer, input.pathLength)
          writeSubjectKeyIdentifier(writer, keyIdentifierOf(input))
          writeAuthorityKeyIdentifier(writer, input.authorityKeyIdentifier)
          if (input.constraints) writeNameConstraints(writer, input.constraints)
          if (input.crlUrls?.length) writeCrlDistributionPoints(writer, input.crlUrls)
          if (input.caIssuersUrls?.length) writeAuthorityInfoAccess(writer, [], input.caIssuersUrls)
        }),
      )
    }),
  )
}

/**
 * DER of a CertificationRequestInfo for a CA certificate (RFC 2986 §4.1).
 * The extensions state its purpose; the signing CA decides.
 */
export function buildCaRequestInfo({ nameDer, spki, pathLength }: CaSubject): Buffer {
  return encodeDer((writer) =>
    writer.sequence(() => {
      writer.smallInteger(0)
      writer.raw(nameDer)
      writer.raw(spki)
      writer.constructed(contextConstructedTag(0), () =>
        writer.sequence(() => {
          writer.oid(EXTENSION_REQUEST)
          writer.constructed(TAG.set, () => writer.sequence(() => writeCaExtensions(writer, pathLength)))
        }),
      )
    }),
  )
}

/** RFC 5280 §4.2.1.9 and §4.2.1.3: both critical. */
function writeCaExtensions(writer: DerWriter, pathLength: number | undefined): void {
  writeExtension(writer, EXTENSION.basicConstraints, true, () =>
    writer.sequence(() => {
      writer.boolean(true)
      if (pathLength !== undefined) writer.smallInteger(pathLength)
    }),
  )
  writeKeyUsage(writer, ['key_cert_sign', 'crl_sign'])
}
