/** Certificates as administrators see them, and their revocation. */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { findIssuer, type IssuerCertificate, type KnownIssuer } from '../../domain/crl-scope.ts'
import type { WindowPolicy } from '../../domain/renewal-window.ts'
import { KEY_COMPROMISE, revocationReasonName } from '../../domain/revocation.ts'
import type { RevocationEvents } from '../../services/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import type { CertificateFilter } from '../../store/certificate-filter.ts'
import { listIssuers, recordUnseen } from '../../store/certificate-import.ts'
import {
  type FoundCertificate,
  findCertificateByFingerprint,
  findCertificatesBySerial,
  listCertificates,
  skipOfCertificates,
} from '../../store/certificate-list.ts'
import { findIssuerChain, revokeCertificate } from '../../store/certificate-store.ts'
import type { CertificateSort } from '../../store/certificate-ways.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog, Transaction } from '../audit/audit-log.ts'
import { type PageRequest, readPageOf } from '../list-pages.ts'
import { type CertificateDetails, certificateDetails } from './certificate-details.ts'
import { expiringByAccount } from './expiring-accounts.ts'
import { expiryHistogram, type HistogramGroup } from './expiry-histogram.ts'
import { readOwnCrl } from './own-crl.ts'

export interface CertificatesOptions {
  db: DatabasePool
  audit: AuditLog
  events: RevocationEvents
  /** For the window that renewal information gives. */
  renewal: WindowPolicy
}

export class Certificates {
  readonly #options: CertificatesOptions

  constructor(options: CertificatesOptions) {
    this.#options = options
  }

  /** Newest first; by expiry, the latest first, where nothing but expiry narrows the list. */
  list(filter: CertificateFilter, sort: CertificateSort | undefined, page: PageRequest) {
    const { expiresAfter, expiresBefore, status, accountId, name } = filter
    const isByExpiry =
      ((expiresAfter ?? expiresBefore) !== undefined || status === 'expired') && (accountId ?? name) === undefined
    const order = sort ?? (isByExpiry ? '-not_after' : '-issued_at')
    const { db } = this.#options
    const skip = skipOfCertificates(db, filter, order)
    return readPageOf((after, limit) => listCertificates(db, filter, after, limit, order), page, skip)
  }

  /**
   * The first with this serial number.
   * @param serialNumber lower-case hexadecimal without leading zero octets
   * @param issuer SHA-256 of the issuer certificate in lower-case hexadecimal
   */
  async find(serialNumber: string, issuer?: string): Promise<FoundCertificate> {
    return known(await firstWith(this.#options.db, serialNumber, issuer))
  }

  /** @param fingerprint SHA-256 in lower-case hexadecimal */
  async findByFingerprint(fingerprint: string): Promise<FoundCertificate> {
    return known(await findCertificateByFingerprint(this.#options.db, fingerprint))
  }

  expiryHistogram(by: HistogramGroup, days: number) {
    return expiryHistogram(this.#options.db, by, days)
  }

  expiringByAccount() {
    return expiringByAccount(this.#options.db)
  }

  async details(
    serialNumber: string,
    issuer?: string,
  ): Promise<{ certificate: FoundCertificate; details: CertificateDetails }> {
    const certificate = known(withDer(await this.find(serialNumber, issuer)))
    const { db, renewal } = this.#options
    return { certificate, details: await certificateDetails(db, certificate, renewal) }
  }

  async pem(serialNumber: string, issuer?: string): Promise<string> {
    return encodePem('CERTIFICATE', known(withDer(await this.find(serialNumber, issuer))).der)
  }

  /** The certificate and its issuers, the root included where it is known. */
  async chain(serialNumber: string, issuer?: string): Promise<string> {
    const { der, issuer_fingerprint } = known(withDer(await this.find(serialNumber, issuer)))
    const issuers = (await findIssuerChain(queriesOf(this.#options.db), issuer_fingerprint)) ?? []
    return [der, ...issuers].map((certificate) => encodePem('CERTIFICATE', certificate)).join('')
  }

  /**
   * @throws AdminError not_found for a certificate that the database lacks and whose issuer is not
   *   named; conflict when it is revoked already
   */
  async revoke(actor: Actor, serialNumber: string, wanted: WantedRevocation): Promise<FoundCertificate> {
    const revoked = await this.#options.audit.transaction(actor, async (tx, note) => {
      const { certificate, isUnseen } = await toRevoke(tx, serialNumber, wanted)
      const blockedKey = await revokeOne(tx, certificate, wanted)
      if (blockedKey === false) throw new AdminError('conflict', 'the certificate is revoked already')
      note('certificate.revoke', {
        serial_number: serialNumber,
        certificate_id: certificate.id,
        reason: revocationReasonName(wanted.reason),
        blocked_key: blockedKey?.toString('hex'),
        ...(isUnseen && { issuer_fingerprint: certificate.issuer_fingerprint }),
      })
      return known(await firstWith(tx, serialNumber, certificate.issuer_fingerprint))
    })
    this.#options.events.revoked(subjectOf(revoked), wanted.reason)
    return revoked
  }

  /** All entries of a list that one of our issuers has signed, after the loss of a database. */
  async revokeFromCrl(actor: Actor, der: Buffer): Promise<CrlOutcome> {
    const revoked: { certificate: FoundCertificate; reason: number }[] = []
    const outcome = await this.#options.audit.transaction(actor, async (tx, note) => {
      const crl = readOwnCrl(der, await listIssuers(queriesOf(tx)))
      const counts = { entries: crl.entries.length, revoked: 0, recorded: 0, known: 0 }
      for (const { serialNumber, reason, revokedAt } of crl.entries) {
        const { certificate, isUnseen } = await findOrRecord(tx, serialNumber, crl.issuer)
        const isNew = (await revokeOne(tx, certificate, { reason, revokedAt })) !== false
        counts[!isNew ? 'known' : isUnseen ? 'recorded' : 'revoked'] += 1
        if (isNew) revoked.push({ certificate, reason })
      }
      if (revoked.length > 0)
        note('certificate.bulk_revoke', {
          crl_number: crl.number,
          issuer: crl.issuer.fingerprints[0].toString('hex'),
          ...counts,
        })
      return counts
    })
    for (const { certificate, reason } of revoked) this.#options.events.revoked(subjectOf(certificate), reason)
    return outcome
  }
}

export interface WantedRevocation {
  /** CRLReason; keyCompromise blocks the key for good. */
  reason: number
  /** Of a certificate that the database may have lost, in lower-case hexadecimal. */
  issuerFingerprint?: string | undefined
  /** Of such a certificate; its issuer's when undefined. */
  notAfter?: Date | undefined
  revokedAt?: Date | undefined
}

/** Entries of a list: revoked now, revoked and unknown until now, revoked before. */
export interface CrlOutcome {
  entries: number
  revoked: number
  recorded: number
  known: number
}

const withDer = (certificate: FoundCertificate) => (certificate.der.length > 0 ? certificate : null)

const subjectOf = ({ id, account_id, serial_number }: FoundCertificate) => ({
  id,
  accountId: account_id ?? undefined,
  serialNumber: serial_number,
})

/** @returns the key it has blocked, if any; false when the certificate was revoked already */
async function revokeOne(
  tx: Transaction,
  { id, der }: FoundCertificate,
  { reason, revokedAt }: WantedRevocation,
): Promise<Buffer | undefined | false> {
  const isKeyKnown = reason === KEY_COMPROMISE && der.length > 0
  const blockedKey = isKeyKnown ? hashSpki(parseCertificate(der).tbs.spki) : undefined
  const revocation = { certificateId: id, reason, blockedKey, requester: undefined, revokedAt }
  return (await revokeCertificate(queriesOf(tx), revocation)) === true && blockedKey
}

/** The certificate that an administrator names; rows that one certificate has twice are revoked together. */
async function toRevoke(tx: Transaction, serialNumber: string, { issuerFingerprint, notAfter }: WantedRevocation) {
  const issuers = await listIssuers(queriesOf(tx))
  if (issuerFingerprint !== undefined) {
    const issuer = issuerWith(issuers, issuerFingerprint)
    if (!issuer) throw new AdminError('invalid_request', 'no issuer of this database has this fingerprint')
    return findOrRecord(tx, serialNumber, issuer, notAfter)
  }
  const [first = null, ...more] = await findCertificatesBySerial(tx, serialNumber)
  const certificate = known(first)
  const own = more.length > 0 ? hexOf(issuerWith(issuers, certificate.issuer_fingerprint)) : []
  if (!more.every(({ issuer_fingerprint }) => own.includes(issuer_fingerprint)))
    throw new AdminError('conflict', `several issuers have given the serial number ${serialNumber}; name one`)
  return { certificate, isUnseen: false }
}

const issuerWith = (issuers: readonly IssuerCertificate[], wanted: string) =>
  findIssuer(issuers, (_, fingerprint) => fingerprint.toString('hex') === wanted)

const hexOf = (issuer: KnownIssuer | undefined) => (issuer?.fingerprints ?? []).map((each) => each.toString('hex'))

/** Looks under all certificates of the issuer, since a list has a serial number once. */
async function findOrRecord(tx: Transaction, serialNumber: string, issuer: KnownIssuer, notAfter?: Date) {
  const { tbs, fingerprints: issuerFingerprints } = issuer
  const find = () => findCertificatesBySerial(tx, serialNumber, hexOf(issuer))
  const [found] = await find()
  if (found) return { certificate: found, isUnseen: false }
  const isRecorded = await recordUnseen(queriesOf(tx), {
    id: uuidv7(Date.now()),
    serialNumber: Buffer.from(serialNumber, 'hex'),
    issuerFingerprints,
    notAfter: notAfter ?? tbs.notAfter,
  })
  if (!isRecorded) throw new AdminError('conflict', `the certificate ${serialNumber} is just being issued; try again`)
  const [recorded = null] = await find()
  return { certificate: known(recorded), isUnseen: true }
}

async function firstWith(
  db: CommonQueryMethods,
  serialNumber: string,
  issuer?: string,
): Promise<FoundCertificate | null> {
  const [first] = await findCertificatesBySerial(db, serialNumber, issuer === undefined ? undefined : [issuer])
  return first ?? null
}

function known(certificate: FoundCertificate | null): FoundCertificate {
  if (certificate) return certificate
  throw notFound('certificate')
}
