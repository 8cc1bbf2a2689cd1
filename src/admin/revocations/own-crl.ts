/** A CRL that one of our issuers has signed (RFC 5280 §5.1), read as a whole. */

import { AdminError } from '../../domain/admin-error.ts'
import { findIssuer, type IssuerCertificate, type KnownIssuer } from '../../domain/crl-scope.ts'
import { readAlgorithmIdentifier } from '../../shared/pki/algorithms.ts'
import { serialNumberHex } from '../../shared/pki/certificate.ts'
import { DerError, readSingle, TAG } from '../../shared/pki/der.ts'
import { verifySignature } from '../../shared/pki/spki.ts'
import { TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'

interface OwnCrl {
  issuer: KnownIssuer
  /** Decimal; undefined where the list has none. */
  number: string | undefined
  entries: { serialNumber: string; revokedAt: Date; reason: number }[]
}

/** @throws AdminError invalid_request */
export function readOwnCrl(der: Buffer, issuers: readonly IssuerCertificate[]): OwnCrl {
  try {
    const list = readSingle(der, TAG.sequence, 'CertificateList')
    const tbs = list.any()
    const { algorithm } = readAlgorithmIdentifier(list)
    const signature = list.bitStringOctets()
    list.finish('CertificateList')
    const { issuerDer, number, entries } = readList(tbs)
    const issuer = findIssuer(
      issuers,
      ({ subjectDer, spki }) => subjectDer.equals(issuerDer) && verifySignature(algorithm, tbs, spki, signature),
    )
    if (!issuer) throw new AdminError('invalid_request', 'no issuer of this database has signed this CRL')
    return { issuer, number, entries }
  } catch (error) {
    if (error instanceof DerError) throw new AdminError('invalid_request', `this is no CRL: ${error.message}`)
    throw error
  }
}

function readList(tbs: Buffer): Pick<OwnCrl, 'number' | 'entries'> & { issuerDer: Buffer } {
  const entries: OwnCrl['entries'] = []
  let issuerDer: Buffer = Buffer.alloc(0)
  const reader = new TbsCertListReader({
    header: (header) => {
      issuerDer = header.issuerDer
    },
    entry: ({ serialNumber, revokedAt, reason = 0 }) =>
      entries.push({ serialNumber: serialNumberHex(serialNumber), revokedAt: revokedAt.at, reason }),
  })
  reader.push(tbs)
  const { number } = reader.finish()
  return { issuerDer, number: number && BigInt(`0x${number.toString('hex')}`).toString(), entries }
}
