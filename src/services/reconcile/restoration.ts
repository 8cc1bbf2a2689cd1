/**
 * Brings back what the signer has recorded and is missing in the database (docs/decisions/records-of-the-signer.md).
 *
 * A certificate comes back under its id, with its account and its order where those are still there. Its own bytes prove it:
 * one of our issuers has signed them.
 */

import type { CaBackend, CaIssuer } from '../../ca/backend.ts'
import {
  parseRequester,
  type RecordedCertificate as SignedCertificate,
  type SignerRecords,
  type SigningRequester,
} from '../../ca/signer-records.ts'
import { namesOf } from '../../domain/certificate-names.ts'
import { findIssuer, type IssuerCertificate, issuerKeyOf, issuerKeyOfCertificate } from '../../domain/crl-scope.ts'
import { withoutSignOctet } from '../../domain/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { hashSpki } from '../../shared/pki/algorithms.ts'
import { type Certificate, parseCertificate, verifyCertificateSignature } from '../../shared/pki/certificate.ts'
import type { RecordedCertificate, RestorationStore, RestoredRevocation } from '../../store/certificate-import.ts'
import type { GivenUp, IssuerRevocations } from '../../store/signer-mark-store.ts'

export interface RestorationEvents {
  certificate(restored: RecordedCertificate): void
  revocation(restored: RestoredRevocation): void
  /** It cannot come back, and is not looked for again. */
  givenUp(line: GivenUp): void
}

interface RestorationParts {
  records: Pick<SignerRecords, 'certificates'>
  ca: Pick<CaBackend, 'issuers'>
  saveIssuer(issuer: CaIssuer): Promise<unknown>
  store: RestorationStore
  events: RestorationEvents
}

export interface KnownIssuers {
  /** By `issuerKeyOf`, in hexadecimal. */
  byKey: ReadonlyMap<string, { fingerprints: readonly Buffer[]; notAfter: Date }>
  certificates: readonly IssuerCertificate[]
  /** The key of an issuer that the signer has now. */
  keyOf(issuerId: string): string | undefined
}

interface Readable {
  found: Found[]
  /** Nobody asks about them any more, and they may have been archived: they do not come back. */
  expired: Set<number>
  /** Why lines cannot come back. */
  givenUp: Map<number, GivenUp>
}

/** Certificates that one request to the signer returns. */
const PAGE = 64
/** Revocations of one transaction. */
const ENTRIES = 500

/** A certificate's line of the audit chain. */
export interface SignedLine {
  sequence: number
  signedAt: Date
  /** In hexadecimal. */
  serial: string
}

interface Found extends SignedLine {
  certificate: Certificate
  serialNumber: Buffer
  requester: SigningRequester
  issuerFingerprints: readonly Buffer[]
}

export class Restoration {
  readonly #parts: RestorationParts

  constructor(parts: RestorationParts) {
    this.#parts = parts
  }

  /** The issuers that the database knows, the signer's own among them. */
  async issuers(): Promise<KnownIssuers> {
    const { ca, saveIssuer, store } = this.#parts
    for (const issuer of ca.issuers()) await saveIssuer(issuer)
    const certificates = await store.imports.issuers()
    const byKey = new Map<string, { fingerprints: Buffer[]; notAfter: Date }>()
    for (const { fingerprint, certificate } of certificates) {
      const { tbs } = parseCertificate(certificate)
      const key = issuerKeyOfCertificate(tbs).toString('hex')
      const known = byKey.get(key) ?? { fingerprints: [], notAfter: tbs.notAfter }
      known.fingerprints.push(fingerprint)
      if (tbs.notAfter > known.notAfter) known.notAfter = tbs.notAfter
      byKey.set(key, known)
    }
    const keys = new Map(
      ca.issuers().map((one) => [one.id, issuerKeyOf(one.nameDer, one.keyIdentifier).toString('hex')]),
    )
    return { byKey, certificates, keyOf: (issuerId) => keys.get(issuerId) }
  }

  /** Reads what the signer has under these lines. @param now what ended before has expired */
  async read(lines: readonly SignedLine[], now: Date): Promise<Readable> {
    const issuers = await this.issuers()
    const readable: Readable = { found: [], expired: new Set(), givenUp: new Map() }
    for (let at = 0; at < lines.length; at += PAGE) {
      const wanted = lines.slice(at, at + PAGE)
      const sequences = wanted.map(({ sequence }) => sequence)
      const signed = new Map((await this.#parts.records.certificates(sequences)).map((one) => [one.sequence, one]))
      for (const line of wanted) {
        const { sequence, serial } = line
        const one = readOne(line, signed.get(sequence), issuers, now)
        if (one === 'expired') readable.expired.add(sequence)
        else if (typeof one === 'string')
          readable.givenUp.set(sequence, { sequence, serialNumber: serial, reason: one })
        else readable.found.push(one)
      }
    }
    return readable
  }

  async record({ found, givenUp }: Readable): Promise<void> {
    for (const line of givenUp.values()) this.#parts.events.givenUp(line)
    for (let at = 0; at < found.length; at += PAGE)
      await this.#record(distinct(await this.#complete(found.slice(at, at + PAGE))))
  }

  async revocations({ issuerFingerprints, entries }: IssuerRevocations, notAfter: Date): Promise<void> {
    const { store, events } = this.#parts
    for (let at = 0; at < entries.length; at += ENTRIES) {
      const page = { issuerFingerprints, entries: entries.slice(at, at + ENTRIES) }
      for (const one of await store.revoke(page, notAfter)) events.revocation(one)
    }
  }

  /** Finishes issuances whose intent the database has. @returns the others */
  async #complete(found: readonly Found[]): Promise<Found[]> {
    const { store, events } = this.#parts
    const intents = await store.imports.findIntents(found.map(({ serialNumber }) => serialNumber))
    const others: Found[] = []
    for (const one of found) {
      const { der, tbsDer, tbs } = one.certificate
      const serialNumber = one.serialNumber.toString('hex')
      const intent = intents.get(serialNumber)
      const issued = { der, names: namesOf(tbs).names, notBefore: tbs.notBefore, notAfter: tbs.notAfter }
      const id = intent?.tbs.equals(tbsDer) ? intent.certificateId : undefined
      if (id !== undefined && (await store.issuance.complete({ certificateId: id, ...issued }))) {
        const { orderId, accountId } = one.requester
        events.certificate({ id, accountId, orderId, serialNumber, names: issued.names })
      } else others.push(one)
    }
    return others
  }

  async #record(found: readonly Found[]): Promise<void> {
    const byIssuer = new Map<string, Found[]>()
    for (const one of found) {
      const issuer = one.issuerFingerprints[0]?.toString('hex') ?? ''
      byIssuer.set(issuer, [...(byIssuer.get(issuer) ?? []), one])
    }
    for (const group of byIssuer.values()) {
      const [{ issuerFingerprints }] = group as [Found]
      const rows = group.map(({ certificate, signedAt, serialNumber, requester }) => ({
        id: requester.certificateId,
        accountId: requester.accountId,
        orderId: requester.orderId,
        serialNumber,
        ...namesOf(certificate.tbs),
        notBefore: certificate.tbs.notBefore,
        notAfter: certificate.tbs.notAfter,
        issuedAt: signedAt,
        der: certificate.der,
        spkiSha256: hashSpki(certificate.tbs.spki),
      }))
      const recorded = await this.#parts.store.imports.record(issuerFingerprints, rows, { backend: undefined })
      for (const one of recorded) this.#parts.events.certificate(one)
    }
  }
}

/**
 * Each serial number, id and order once. Bytes that were signed twice have two lines, and of two certificates of an order
 * the later one is the order's.
 */
function distinct(found: readonly Found[]): Found[] {
  const bySerial = new Map(found.map((one) => [one.serialNumber.toString('hex'), one]))
  const taken = new Set<string>()
  return [...bySerial.values()].reverse().map((one) => {
    const { certificateId, orderId = certificateId, accountId } = one.requester
    const isFree = !taken.has(certificateId) && !taken.has(orderId)
    taken.add(certificateId).add(orderId)
    return isFree ? one : { ...one, requester: { certificateId: uuidv7(Date.now()), orderId: undefined, accountId } }
  })
}

/** @returns a reason where the certificate cannot come back */
function readOne(
  line: SignedLine,
  signed: SignedCertificate | undefined,
  { certificates }: KnownIssuers,
  now: Date,
): Found | 'expired' | string {
  if (!signed) return 'the signer has the certificate no more'
  let certificate: Certificate
  try {
    certificate = parseCertificate(signed.der)
  } catch (error) {
    return `the record is no certificate: ${(error as Error).message}`
  }
  const { tbs } = certificate
  if (tbs.notAfter <= now) return 'expired'
  const issuer = findIssuer(
    certificates,
    ({ subjectDer, spki }) => subjectDer.equals(tbs.issuerDer) && verifyCertificateSignature(certificate, spki.der),
  )
  if (!issuer) return 'no issuer of this database has signed it'
  const requester = parseRequester(signed.requester)
  return {
    ...line,
    certificate,
    serialNumber: withoutSignOctet(tbs.serialNumber),
    requester: requester ?? { certificateId: uuidv7(Date.now()), orderId: undefined, accountId: undefined },
    issuerFingerprints: issuer.fingerprints,
  }
}
