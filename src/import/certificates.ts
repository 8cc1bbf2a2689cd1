/** Certificates of a former server: an issuer of this database has signed them. Their revocations come along. */

import type { AuditLog } from '../admin/audit/audit-log.ts'
import type { Actor } from '../domain/administrator.ts'
import { namesOf } from '../domain/certificate-names.ts'
import { findIssuer, type IssuerCertificate, type KnownIssuer } from '../domain/crl-scope.ts'
import { withoutSignOctet } from '../domain/revocation.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { hashSpki } from '../shared/pki/algorithms.ts'
import {
  type Certificate,
  fingerprintSha256,
  MAX_SERIAL_OCTETS,
  parseCertificate,
  verifyCertificateSignature,
} from '../shared/pki/certificate.ts'
import { lintedReason } from '../shared/pki/crl-lint.ts'
import { createCertificateImport, findRecorded, revokeListed } from '../store/certificate-import.ts'
import type { Database, Statement } from '../store/database.ts'
import { createIssuanceStore } from '../store/issuance-store.ts'
import type { IssuerRevocations } from '../store/signer-mark-store.ts'
import type { ImportedCertificate, Outcome, PageContext, Unreadable, WritePage } from './model.ts'

interface Candidate {
  imported: ImportedCertificate
  certificate: Certificate
  serialNumber: Buffer
  issuer: KnownIssuer
}

/** The record of a serial number, as it is or would be after the pages before. Without a fingerprint its certificate is unknown. */
interface Recorded {
  fingerprint: string
  isRevoked: boolean
}
type RecordedBySerial = Map<string, Recorded>

export function createCertificateWriter(): WritePage<ImportedCertificate> {
  let issuers: Issuers | undefined
  let books = new Map<KnownIssuer, RecordedBySerial>()
  return async (page, context) => {
    issuers ??= new Issuers(await createCertificateImport(context.queries).issuers())
    const known = issuers
    // A dry run finds in no table what it would have written; 300 octets a certificate.
    if (!context.isDryRun) books = new Map()
    const read = page.map((one) => readCertificate(one, known))
    const candidates = read.filter((one): one is Candidate => 'certificate' in one)
    const outcomes = new Map<Candidate, Outcome>()
    for (const issuer of new Set(candidates.map((one) => one.issuer))) {
      const ofIssuer = candidates.filter((one) => one.issuer === issuer)
      const here = books.get(issuer) ?? new Map()
      books.set(issuer, here)
      for (const [candidate, outcome] of await writeOfIssuer(ofIssuer, here, context)) outcomes.set(candidate, outcome)
    }
    return read.map((one) => ('certificate' in one ? (outcomes.get(one) as Outcome) : one))
  }
}

/** Each issuer once, parsed. Its certificates have one name and one key. */
class Issuers {
  readonly #known: KnownIssuer[] = []

  constructor(certificates: readonly IssuerCertificate[]) {
    for (const { fingerprint } of certificates) {
      if (this.#known.some((other) => other.fingerprints.some((one) => one.equals(fingerprint)))) continue
      const issuer = findIssuer(certificates, (_, own) => own.equals(fingerprint))
      if (issuer) this.#known.push(issuer)
    }
  }

  of(certificate: Certificate): KnownIssuer | undefined {
    const { issuerDer } = certificate.tbs
    return this.#known.find(
      ({ tbs }) => tbs.subjectDer.equals(issuerDer) && verifyCertificateSignature(certificate, tbs.spki.der),
    )
  }
}

function readCertificate(imported: ImportedCertificate, issuers: Issuers): Candidate | Exclude<Outcome, string> {
  let certificate: Certificate
  try {
    certificate = parseCertificate(imported.der)
  } catch (error) {
    return { name: `${imported.der.length} octets`, skipped: `is no certificate: ${(error as Error).message}` }
  }
  const serialNumber = withoutSignOctet(certificate.tbs.serialNumber)
  const name = serialNumber.toString('hex')
  if (certificate.tbs.isCa) return { name, skipped: 'is the certificate of a CA' }
  if (!fitsList(certificate.tbs.serialNumber, serialNumber))
    return { name, skipped: 'its serial number is zero, negative or too long, so that no CRL could revoke it' }
  const issuer = issuers.of(certificate)
  return issuer
    ? { imported, certificate, serialNumber, issuer }
    : { name, skipped: 'issuer unknown: no issuer in this database has signed it' }
}

function fitsList(octets: Buffer, magnitude: Buffer): boolean {
  const isNegative = (octets[0] ?? 0) >= 0x80
  return !isNegative && octets.length <= MAX_SERIAL_OCTETS && magnitude.some((octet) => octet !== 0)
}

async function writeOfIssuer(
  all: readonly Candidate[],
  here: RecordedBySerial,
  context: PageContext,
): Promise<Map<Candidate, Outcome>> {
  const { queries, isDryRun, revoked } = context
  const fingerprints = all[0]?.issuer.fingerprints ?? []
  const serialNumbers = all.map(({ serialNumber }) => serialNumber)
  for (const { serialNumber, der, isRevoked } of await findRecorded(queries, fingerprints, serialNumbers))
    if (!here.has(serialNumber))
      here.set(serialNumber, { fingerprint: der.length > 0 ? fingerprintSha256(der) : '', isRevoked })
  const outcomes = new Map<Candidate, Outcome>()
  const fresh: Candidate[] = []
  const entries: IssuerRevocations['entries'][number][] = []
  for (const candidate of all) {
    const { revokedAt, revocationReason = 0, der } = candidate.imported
    const name = candidate.serialNumber.toString('hex')
    const fingerprint = fingerprintSha256(der)
    const known = here.get(name) ?? { fingerprint: '', isRevoked: false }
    if (known.fingerprint !== '' && known.fingerprint !== fingerprint) {
      outcomes.set(candidate, { name, skipped: 'its serial number is that of another certificate here' })
      continue
    }
    if (known.fingerprint === '') fresh.push(candidate)
    outcomes.set(candidate, known.fingerprint === '' ? 'new' : 'known')
    here.set(name, { fingerprint, isRevoked: known.isRevoked || revokedAt !== undefined })
    if (!revokedAt || known.isRevoked) continue
    // Not after the next list.
    const at = new Date(Math.min(revokedAt.getTime(), Date.now()))
    entries.push({ serialNumber: name, revokedAt: at, reason: lintedReason(revocationReason) })
  }
  if (!isDryRun && fresh.length > 0) await record(fresh, fingerprints, context)
  if (entries.length === 0) return outcomes
  revoked(
    isDryRun ? entries.length : (await revokeListed(queries, { issuerFingerprints: fingerprints, entries })).length,
  )
  return outcomes
}

async function record(
  fresh: readonly Candidate[],
  fingerprints: readonly Buffer[],
  { queries }: PageContext,
): Promise<void> {
  const accounts = await accountIdsOf(
    queries,
    fresh.flatMap(({ imported }) => imported.accountThumbprint ?? []),
  )
  const rows = fresh.map(({ imported, certificate: { tbs }, serialNumber }) => ({
    // Lists and filters read the time of issuance from the id.
    id: uuidv7(tbs.notBefore.getTime()),
    accountId: imported.accountThumbprint && accounts.get(imported.accountThumbprint),
    serialNumber,
    ...namesOf(tbs),
    notBefore: tbs.notBefore,
    notAfter: tbs.notAfter,
    der: imported.der,
    spkiSha256: hashSpki(tbs.spki),
  }))
  await createCertificateImport(queries).record(fingerprints, rows, 'as its issuer')
}

/**
 * Completes issuances that a backup caught between their intent and their certificate, with that certificate. Recovery
 * would sign them again with other bytes.
 * @returns a function that completes the issuances of a page
 */
export function issuanceCompletion(db: Database, audit: AuditLog, actor: Actor) {
  const { findIntents, issuers } = createCertificateImport(db)
  const { complete } = createIssuanceStore(db)
  return async (page: readonly (ImportedCertificate | Unreadable)[]): Promise<void> => {
    const certificates = page.flatMap((one) => ('der' in one ? [parseCertificate(one.der)] : []))
    const serialNumbers = certificates.map(({ tbs }) => withoutSignOctet(tbs.serialNumber))
    const intents = await findIntents(serialNumbers)
    const known = intents.size > 0 ? await issuers() : []
    const keys = known.map((issuer) => parseCertificate(issuer.certificate).tbs.spki.der)
    for (const [at, certificate] of certificates.entries()) {
      const { der, tbs, tbsDer } = certificate
      const serialNumber = (serialNumbers[at] as Buffer).toString('hex')
      const intent = intents.get(serialNumber)
      // An equal TBS with a garbled signature would be what the client downloads.
      const isSigned = keys.some((key) => verifyCertificateSignature(certificate, key))
      if (!intent?.tbs.equals(tbsDer) || !isSigned) continue
      const { notBefore, notAfter } = tbs
      const names = [...tbs.dnsNames, ...tbs.ipAddresses]
      if (await complete({ certificateId: intent.certificateId, der, names, notBefore, notAfter }))
        await audit.record(actor, 'certificate.import', { serial_number: serialNumber, outcome: 'completed' })
    }
  }
}

const ACCOUNT_IDS: Statement = {
  name: 'import-account-ids',
  text: 'SELECT id, thumbprint FROM accounts WHERE thumbprint = ANY ($1::text[])',
}

async function accountIdsOf(
  queries: PageContext['queries'],
  thumbprints: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await queries.query<{ id: string; thumbprint: string }>(ACCOUNT_IDS, [thumbprints])
  return new Map(rows.map(({ id, thumbprint }) => [thumbprint, id]))
}
