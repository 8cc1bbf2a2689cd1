/** A CRL that one of our issuers has signed (RFC 5280 §5.1), read as a whole. */

import { AdminError } from '../../domain/admin-error.ts'
import { readAlgorithmIdentifier } from '../../shared/pki/algorithms.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { DerError, readSingle, TAG } from '../../shared/pki/der.ts'
import { verifySignature } from '../../shared/pki/signature.ts'
import { TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'
import { serialNumberHex } from '../../shared/pki/tbs-certificate.ts'

export interface OwnCrl {
  issuerFingerprint: string
  /** Decimal; undefined where the list has none. */
  number: string | undefined
  entries: { serialNumber: string; revokedAt: Date; reason: number }[]
}

interface Issuer {
  fingerprint: Buffer
  certificate: Buffer
}

/** @throws AdminError invalid_request */
export function readOwnCrl(der: Buffer, issuers: readonly Issuer[]): OwnCrl {
  try {
    const list = readSingle(der, TAG.sequence, 'CertificateList')
    const tbs = list.any()
    const { algorithm } = readAlgorithmIdentifier(list)
    const signature = list.bitStringOctets()
    list.finish('CertificateList')
    const issuer = issuers.find(({ certificate }) =>
      verifySignature(algorithm, tbs, parseCertificate(certificate).tbs.spki, signature),
    )
    if (!issuer) throw new AdminError('invalid_request', 'no issuer of this database has signed this CRL')
    return { issuerFingerprint: issuer.fingerprint.toString('hex'), ...readEntries(tbs) }
  } catch (error) {
    if (error instanceof DerError) throw new AdminError('invalid_request', `this is no CRL: ${error.message}`)
    throw error
  }
}

function readEntries(tbs: Buffer): Pick<OwnCrl, 'number' | 'entries'> {
  const entries: OwnCrl['entries'] = []
  const reader = new TbsCertListReader({
    header: () => undefined,
    entry: ({ serialNumber, revokedAt, reason = 0 }) =>
      entries.push({ serialNumber: serialNumberHex(serialNumber), revokedAt: revokedAt.at, reason }),
  })
  reader.push(tbs)
  const { number } = reader.finish()
  return { number: number && BigInt(`0x${number.toString('hex')}`).toString(), entries }
}
