/**
 * Plain requests for certificates (RFC 2986), written by hand: the library for all others is two hundred modules,
 * which most tests have no other use for.
 */

import { sign } from 'node:crypto'
import { isIP } from 'node:net'
import { SIGNATURE_ALGORITHMS } from '../../src/shared/pki/algorithms.ts'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag, TAG } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeSubjectAltName } from '../../src/shared/pki/extensions.ts'
import { EMPTY_NAME } from '../../src/shared/pki/name.ts'
import { EXTENSION_REQUEST } from '../../src/shared/pki/oids.ts'
import type { TestKey } from './keys.ts'

/** DER of a request with an empty subject and these names and addresses. */
export function plainCsr({ spki, privateKey, signatureAlgorithm }: TestKey, names: readonly string[]): Buffer {
  const subjectAltName = {
    dnsNames: names.filter((name) => isIP(name) === 0),
    ipAddresses: names.filter((name) => isIP(name) !== 0),
  }
  const info = encodeDer((writer) =>
    writer.sequence(() => {
      writer.smallInteger(0)
      writer.raw(EMPTY_NAME)
      writer.raw(spki)
      writer.constructed(contextConstructedTag(0), () =>
        writer.sequence(() => {
          writer.oid(EXTENSION_REQUEST)
          writer.constructed(TAG.set, () => writer.sequence(() => writeSubjectAltName(writer, subjectAltName, false)))
        }),
      )
    }),
  )
  const { hash } = SIGNATURE_ALGORITHMS[signatureAlgorithm]
  return assembleCertificate(info, signatureAlgorithm, sign(hash, info, privateKey))
}
