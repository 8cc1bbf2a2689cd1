/** A CRL as a relying party gets it. */

import { readAlgorithmIdentifier } from '../../shared/pki/algorithms.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { readSingle, TAG } from '../../shared/pki/der.ts'
import { verifySignature } from '../../shared/pki/spki.ts'
import { type CrlHeader, TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'

export interface CrlFacts {
  thisUpdate: Date
  nextUpdate: Date | undefined
  number: bigint
  isSignedBy(issuer: Buffer): boolean
}

/** @throws DerError */
export function readCrl(der: Buffer): CrlFacts {
  const reader = readSingle(der, TAG.sequence, 'CertificateList', false)
  const start = reader.offset
  reader.sequence()
  const tbs = der.subarray(start, reader.offset)
  const { algorithm } = readAlgorithmIdentifier(reader)
  const signature = reader.bitStringOctets()
  let header: CrlHeader | undefined
  const list = new TbsCertListReader({
    header(found) {
      header = found
    },
    entry: () => undefined,
  })
  list.push(tbs)
  const { number } = list.finish()
  return {
    thisUpdate: header!.thisUpdate.at,
    nextUpdate: header!.nextUpdate?.at,
    number: BigInt(`0x${number?.toString('hex') || '0'}`),
    isSignedBy: (issuer) => verifySignature(algorithm, tbs, parseCertificate(issuer).tbs.spki, signature),
  }
}
