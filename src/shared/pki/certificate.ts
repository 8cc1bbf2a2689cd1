/** Certificates (RFC 5280 §4.1): assembling, reading, verifying and naming. */

import { hash, KeyObject } from 'node:crypto'
import { readAlgorithmIdentifier, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from './algorithms.ts'
import { DerError, readSingle, TAG } from './der.ts'
import { encodeDer } from './der-writer.ts'
import { parseSpki, verifySignature } from './spki.ts'
import { readTbsCertificate, type TbsCertificate } from './tbs-certificate.ts'

/** Buffers are views of `der`. */
export interface Certificate {
  der: Buffer
  tbs: TbsCertificate
  tbsDer: Buffer
  /** Undefined for an unsupported algorithm; its OID is in `tbs.signatureAlgorithm`. */
  signatureAlgorithm: SignatureAlgorithm | undefined
  signature: Buffer
}

/** `signature` in its X.509 form: DER for ECDSA, plain octets otherwise. */
export function assembleCertificate(tbs: Buffer, signatureAlgorithm: SignatureAlgorithm, signature: Buffer): Buffer {
  return encodeDer((writer) =>
    writer.sequence(() => {
      writer.raw(tbs)
      writer.raw(SIGNATURE_ALGORITHMS[signatureAlgorithm].identifierDer)
      writer.bitStringOctets(signature)
    }),
  )
}

/** Reads a certificate that fills the whole Buffer, by whatever CA. @throws DerError */
export function parseCertificate(der: Buffer): Certificate {
  const reader = readSingle(der, TAG.sequence, 'Certificate', false)
  const tbsStart = reader.offset
  const tbs = readTbsCertificate(reader)
  const tbsDer = der.subarray(tbsStart, reader.offset)
  const algorithmAt = reader.offset
  const { algorithm, der: identifierDer } = readAlgorithmIdentifier(reader)
  // RFC 5280 §4.1.1.2: the unsigned copy must equal the signed one.
  if (!identifierDer.equals(tbs.signatureAlgorithm.der)) {
    throw new DerError('signatureAlgorithm differs from the one inside the TBSCertificate', algorithmAt)
  }
  const signature = reader.bitStringOctets()
  reader.finish('Certificate')
  return { der, tbs, tbsDer, signatureAlgorithm: algorithm, signature }
}

/**
 * Whether the issuer's key made the signature. A key in DER is imported at each call, so frequent
 * callers pass a KeyObject.
 * @throws DerError when `issuerKey` is no SubjectPublicKeyInfo
 */
export function verifyCertificateSignature(certificate: Certificate, issuerKey: KeyObject | Buffer): boolean {
  const key = issuerKey instanceof KeyObject ? issuerKey : parseSpki(issuerKey)
  return verifySignature(certificate.signatureAlgorithm, certificate.tbsDer, key, certificate.signature)
}

/** Lower-case hexadecimal SHA-256 of the whole certificate. */
export function fingerprintSha256(der: Buffer): string {
  return hash('sha256', der, 'hex')
}
