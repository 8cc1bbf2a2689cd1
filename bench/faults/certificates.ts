/** Certificates of the stand's own TLS: self-signed, and trusted by name of their file. */

import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeSubjectAltName } from '../../src/shared/pki/extensions.ts'
import { encodeCommonName } from '../../src/shared/pki/name.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { writeUpToExtensions } from '../../src/shared/pki/tbs-certificate.ts'

const HOUR_MS = 3_600_000
const LIFETIME_MS = 30 * 24 * HOUR_MS
const HOST = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }

export interface ServerKey {
  pem: string
  /** A month from now. */
  certificate: string
  /** Ended a minute before it was made. */
  expired: string
}

export function serverKey(commonName: string): ServerKey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = publicKey.export({ format: 'der', type: 'spki' })
  const name = encodeCommonName(commonName)
  return {
    pem: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
    certificate: selfSigned(name, spki, privateKey, false),
    expired: selfSigned(name, spki, privateKey, true),
  }
}

function selfSigned(name: Buffer, spki: Buffer, key: KeyObject, expired: boolean): string {
  const signatureAlgorithm = 'SHA256withECDSA'
  const now = Math.floor(Date.now() / 1000) * 1000
  // Two hours back: a clock that the stand turns back by an hour is no reason to refuse it.
  const notBefore = new Date(now - 2 * HOUR_MS)
  const notAfter = new Date(expired ? now - 60_000 : now + LIFETIME_MS)
  const serialNumber = Buffer.concat([Buffer.of(1), randomBytes(15)])
  const fields = { notBefore, notAfter, spki, signatureAlgorithm, serialNumber, issuerNameDer: name } as const
  const tbs = encodeDer((writer) =>
    writer.sequence(() => {
      writeUpToExtensions(writer, fields, name)
      writer.constructed(contextConstructedTag(3), () =>
        writer.sequence(() => writeSubjectAltName(writer, HOST, false)),
      )
    }),
  )
  return encodePem('CERTIFICATE', assembleCertificate(tbs, signatureAlgorithm, sign('sha256', tbs, key)))
}
