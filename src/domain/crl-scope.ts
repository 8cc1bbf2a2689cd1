/**
 * Which CRL a certificate belongs to: its issuer's, and there the part for its serial number. A renewed issuer has the same
 * name and key, so both of its certificates share serial numbers and a CRL (RFC 5280 §5).
 */

import { createHash } from 'node:crypto'
import { parseCertificate, type TbsCertificate } from '../shared/pki/certificate.ts'

/** A certificate with its SHA-256. */
export interface IssuerCertificate {
  fingerprint: Buffer
  certificate: Buffer
}

export interface KnownIssuer {
  tbs: TbsCertificate
  /** SHA-256 of each of its certificates; `tbs` is the first. */
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

/** A complete list is the only part. */
export const COMPLETE = { shards: 1, shard: 0 } as const

/**
 * Remainder of the last two octets, which are as good as random in any serial number.
 * `store/crl-store.ts` selects pages by the same rule.
 */
export function shardOf(serialNumber: Buffer, shards: number): number {
  // A former server may have counted from 1.
  const octets = Math.min(2, serialNumber.length)
  return serialNumber.readUIntBE(serialNumber.length - octets, octets) % shards
}

const OCTETS = 256

/**
 * The last octets that serial numbers of a part have, as ranges from first to last; the database counts revocations by
 * them. Certificates of other parts may share them where the count is no power of two, or above 256.
 */
export function octetsOf({ shards, shard }: { shards: number; shard: number }): (readonly [number, number])[] {
  // The largest power of two that divides the count.
  const step = Math.min(OCTETS, shards & -shards)
  if (step === 1) return [[0, OCTETS - 1]]
  return Array.from({ length: OCTETS / step }, (_, at) => [(shard % step) + at * step, (shard % step) + at * step])
}

/** Last part of a list's path: `default` for a complete one, `default/16-3` for the fourth of sixteen. */
export function crlName(issuerId: string, { shards, shard }: { shards: number; shard: number }): string {
  // The name contains the count, so that certificates keep their list when the count changes.
  return shards === 1 ? issuerId : `${issuerId}/${shards}-${shard}`
}
