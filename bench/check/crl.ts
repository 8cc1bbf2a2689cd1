/** Checks of a CRL (RFC 5280 §5.1): signed by the issuer of the certificates that name it, and not out of date. */

import { X509Certificate } from 'node:crypto'
import { readAlgorithmIdentifier } from '../../src/shared/pki/algorithms.ts'
import { readSingle, TAG } from '../../src/shared/pki/der.ts'
import { verifySignature } from '../../src/shared/pki/signature.ts'
import { readTime } from '../../src/shared/pki/time.ts'
import { Failure } from '../client/failure.ts'

const END = '-----END CERTIFICATE-----'
/**
 * @param chainPem a certificate and its issuer
 * @returns a function that checks each distinct list once, and throws Failure `check-crl`
 */
export function crlChecker(chainPem: string): (der: Buffer) => void {
  const issuer = new X509Certificate(chainPem.split(END)[1] + END)
  let good = Buffer.alloc(0)
  return (der) => {
    if (der.equals(good)) return
    try {
      checkCrl(der, issuer)
    } catch (error) {
      if (error instanceof Failure) throw error
      throw new Failure('check-crl', `not a CRL: ${(error as Error).message}`)
    }
    good = Buffer.from(der)
  }
}

function checkCrl(der: Buffer, issuer: X509Certificate): void {
  const reader = readSingle(der, TAG.sequence, 'CertificateList')
  const tbs = reader.any()
  const { algorithm } = readAlgorithmIdentifier(reader)
  const signature = reader.bitStringOctets()
  reader.finish('CertificateList')
  if (!verifySignature(algorithm, tbs, issuer.publicKey, signature))
    throw new Failure('check-crl', `the CRL is not signed by ${issuer.subject}`)
  const fields = readSingle(tbs, TAG.sequence, 'TBSCertList')
  // Version, signature, issuer, thisUpdate; nextUpdate follows.
  for (let skipped = 0; skipped < 4; skipped++) fields.any()
  const nextUpdate = readTime(fields).at
  if (!(nextUpdate.getTime() > Date.now()))
    throw new Failure('check-crl', `the CRL was to be followed at ${nextUpdate}`)
}
