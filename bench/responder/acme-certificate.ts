/** The certificate that answers a tls-alpn-01 challenge (RFC 8737 §3): self-signed, for one name, with the digest of the key authorization. */

import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { der } from '../client/csr.ts'

const ECDSA_WITH_SHA256 = '300a06082a8648ce3d040302'
const OID_SUBJECT_ALT_NAME = '0603551d11'
/** id-pe-acmeIdentifier, 1.3.6.1.5.5.7.1.31. */
const OID_ACME_IDENTIFIER = '06082b0601050507011f'
const TRUE = '0101ff'
const VERSION_3 = 'a003020102'
const SERIAL_1 = '020101'
/** 2025-01-01 to 2049-12-31: nobody asks about it (RFC 8737 §3). */
const VALIDITY = der('30', der('17', hexOf('250101000000Z')) + der('17', hexOf('491231235959Z')))
/** The name "bench", for issuer and subject. */
const NAME = der('30', der('31', der('30', `0603550403${der('0c', hexOf('bench'))}`)))

export interface AcmeCertificateMaker {
  /** PEM of the key of all certificates. */
  key: string
  /** @param digest base64url of the SHA-256 of the key authorization @returns PEM */
  certificateFor(name: string, digest: string): string
}

export function acmeCertificateMaker(): AcmeCertificateMaker {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = publicKey.export({ format: 'der', type: 'spki' }).toString('hex')
  const key = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  const signingKey = createPrivateKey(key)
  return {
    key,
    certificateFor(name, digest) {
      const altNames = extension(OID_SUBJECT_ALT_NAME, '', der('30', der('82', hexOf(name))))
      const authorization = der('04', Buffer.from(digest, 'base64url').toString('hex'))
      const acmeIdentifier = extension(OID_ACME_IDENTIFIER, TRUE, authorization)
      const extensions = der('a3', der('30', altNames + acmeIdentifier))
      const tbs = der('30', VERSION_3 + SERIAL_1 + ECDSA_WITH_SHA256 + NAME + VALIDITY + NAME + spki + extensions)
      const signature = sign('sha256', Buffer.from(tbs, 'hex'), signingKey).toString('hex')
      const certificate = der('30', tbs + ECDSA_WITH_SHA256 + der('03', `00${signature}`))
      const base64 = Buffer.from(certificate, 'hex').toString('base64')
      return `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`
    },
  }
}

function extension(oid: string, critical: string, value: string): string {
  return der('30', oid + critical + der('04', value))
}

function hexOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('hex')
}
