/** DER of a plain certification request (RFC 2986): an empty subject, and names as requested extension (RFC 2985 §5.4.2). */

import type { SignatureAlgorithm } from './algorithms.ts'
import { assembleCertificate } from './certificate.ts'
import { contextConstructedTag, TAG } from './der.ts'
import { encodeDer } from './der-writer.ts'
import { writeSubjectAltName } from './extensions.ts'
import { EMPTY_NAME } from './name.ts'
import { EXTENSION_REQUEST } from './oids.ts'

interface CsrInput {
  /** DER of the SubjectPublicKeyInfo. */
  spki: Buffer
  dnsNames: readonly string[]
  ipAddresses: readonly string[]
  signatureAlgorithm: SignatureAlgorithm
  /** Signs with the key of `spki`; the signature in its X.509 form. */
  sign(certificationRequestInfo: Buffer): Buffer
}

export function buildCsr({ spki, dnsNames, ipAddresses, signatureAlgorithm, sign }: CsrInput): Buffer {
  const info = encodeDer((writer) =>
    writer.sequence(() => {
      writer.smallInteger(0)
      writer.raw(EMPTY_NAME)
      writer.raw(spki)
      writer.constructed(contextConstructedTag(0), () =>
        writer.sequence(() => {
          writer.oid(EXTENSION_REQUEST)
          writer.constructed(TAG.set, () =>
            writer.sequence(() => writeSubjectAltName(writer, { dnsNames, ipAddresses }, false)),
          )
        }),
      )
    }),
  )
  // Both structures are a signed part, an algorithm and a signature.
  return assembleCertificate(info, signatureAlgorithm, sign(info))
}
