/**
 * Which certificates belong to one issuer: a renewed one has the same name and key, and the serial numbers of both are of
 * one issuer.
 */

import { createHash } from 'node:crypto'
import { parseCertificate } from '../shared/pki/certificate.ts'
import type { TbsCertificate } from '../shared/pki/tbs-certificate.ts'

/** A certificate with its SHA-256. */
export interface IssuerCertificate {
  fingerprint: Buffer
  certificate: Buffer
}

export interface KnownIssuer {
  tbs: TbsCertificate
  /** Of all its certificates; the first is that of `tbs`. */
  fingerprints: readonly [Buffer, ...Buffer[]]
}

/** Relying parties identify a CRL issuer by its name and authorityKeyIdentifier. */
export function issuerKeyOf(nameDer: Buffer, keyIdentifier: Buffer): Buffer {
  return createHash('sha256').update(nameDer).update(keyIdentifier).digest()
}

/** The key of the issuer to which this certificate belongs. */
export function issuerKeyOfCertificate({ subjectDer, subjectKeyIdentifier }: TbsCertificate): Buffer {
  return issuerKeyOf(subjectDer, subjectKeyIdentifier ?? Buffer.alloc(0))
}

/** The issuer to which the first certificate that fits belongs. */
export function findIssuer(
  certificates: readonly IssuerCertificate[],
  fits: (tbs: TbsCertificate, fingerprint: Buffer) => boolean,
): KnownIssuer | undefined {
  const known = certificates.map(({ fingerprint, certificate }) => ({
    fingerprint,
    tbs: parseCertificate(certificate).tbs,
  }))
  const found = known.find(({ tbs, fingerprint }) => fits(tbs, fingerprint))
  if (!found) return undefined
  const issuerKey = issuerKeyOfCertificate(found.tbs)
  const others = known.filter((other) => other !== found && issuerKeyOfCertificate(other.tbs).equals(issuerKey))
  return { tbs: found.tbs, fingerprints: [found.fingerprint, ...others.map(({ fingerprint }) => fingerprint)] }
}
