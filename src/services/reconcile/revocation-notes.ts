/**
 * Reports revocations to the signer that the database has committed, before a client hears of them: until a list has them, a
 * fail-over could lose them. The next list, which the signer records, too, has those that could not be reported.
 */

import type { CaBackend } from '../../ca/backend.ts'
import type { NotedRevocation, SignerRecords } from '../../ca/signer-records.ts'
import { issuerKeyOf, issuerKeyOfCertificate } from '../../domain/crl-scope.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import type { CertificateStore, CommittedRevocation } from '../../store/certificate-store.ts'

/** Never rejects, and takes at most two seconds. @param certificateIds of revoked certificates */
export type NoteRevocations = (certificateIds: readonly string[]) => Promise<unknown>

/** @returns whether the signer has them all */
export type ReportRevocations = (certificateIds: readonly string[]) => Promise<boolean>

interface RevocationNotesParts {
  ca: Pick<CaBackend, 'issuers' | 'unreachable'>
  /** Undefined when no certificate is signed here. */
  records: Pick<SignerRecords, 'note'> | undefined
  certificates: Pick<CertificateStore, 'findRevocations' | 'findIssuerChain'>
  onFailed(error: unknown, count: number): void
}

const PAGE = 500
const TIMEOUT_MS = 2_000

export function createRevocationNotes({
  ca,
  records,
  certificates,
  onFailed,
}: RevocationNotesParts): ReportRevocations {
  /** Id in the signer by fingerprint; a renewed certificate has the name and key of the one before. */
  async function issuerIdOf(fingerprint: string): Promise<string | undefined> {
    const [der] = (await certificates.findIssuerChain(fingerprint)) ?? []
    if (!der) return undefined
    const key = issuerKeyOfCertificate(parseCertificate(der).tbs)
    return ca.issuers().find(({ nameDer, keyIdentifier }) => issuerKeyOf(nameDer, keyIdentifier).equals(key))?.id
  }

  async function report(
    signer: Pick<SignerRecords, 'note'>,
    revocations: readonly CommittedRevocation[],
    until: number,
  ) {
    let areAllNoted = true
    const byIssuer = new Map<string, NotedRevocation[]>()
    for (const { issuerFingerprint, serialNumber, revokedAt, reason } of revocations) {
      const entries = byIssuer.get(issuerFingerprint) ?? []
      entries.push([serialNumber, Math.floor(revokedAt.getTime() / 1000), reason])
      byIssuer.set(issuerFingerprint, entries)
    }
    for (const [fingerprint, entries] of byIssuer) {
      // An issuer that the signer has no more, or another CA, has no list here.
      const issuerId = await issuerIdOf(fingerprint)
      const isNoted =
        issuerId !== undefined && (await signer.note(issuerId, entries, 'revocation', until - performance.now()))
      if (!isNoted) areAllNoted = false
    }
    return areAllNoted
  }

  return async (certificateIds) => {
    if (!records || ca.unreachable()) return false
    let areAllNoted = true
    const until = performance.now() + TIMEOUT_MS
    try {
      for (let at = 0; at < certificateIds.length; at += PAGE) {
        if (performance.now() >= until) return false
        const revocations = await certificates.findRevocations(certificateIds.slice(at, at + PAGE))
        if (!(await report(records, revocations, until))) areAllNoted = false
      }
    } catch (error) {
      onFailed(error, certificateIds.length)
      return false
    }
    return areAllNoted
  }
}
