/** Certification requests (RFC 2986) for one DNS name: subject empty, the name in a subjectAltName extension request. */

import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag, TAG } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeSubjectAltName } from '../../src/shared/pki/extensions.ts'
import { EMPTY_NAME } from '../../src/shared/pki/name.ts'
import { EXTENSION_REQUEST } from '../../src/shared/pki/oids.ts'
import type { EcKey } from './signer.ts'

/** @returns a function from a DNS name to the base64url DER of a request by `key` */
export function csrMaker(key: EcKey): (name: string) => string {
  return (name) => {
    const info = encodeDer((writer) =>
      writer.sequence(() => {
        writer.smallInteger(0)
        writer.raw(EMPTY_NAME)
        writer.raw(key.spki)
        writer.constructed(contextConstructedTag(0), () =>
          writer.sequence(() => {
            writer.oid(EXTENSION_REQUEST)
            const names = { dnsNames: [name], ipAddresses: [] }
            writer.constructed(TAG.set, () => writer.sequence(() => writeSubjectAltName(writer, names, false)))
          }),
        )
      }),
    )
    // A request is put together as a certificate is: content, algorithm, signature.
    return assembleCertificate(info, 'SHA256withECDSA', key.sign(info, 'x509')).toString('base64url')
  }
}
