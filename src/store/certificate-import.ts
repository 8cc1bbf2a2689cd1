/**
 * SQL of issued certificates that the database lacks because it was restored to an earlier time.
 */

import type { IssuerCertificate } from '../domain/crl-scope.ts'
import { ISSUER_CERTIFICATES } from './certificate-store.ts'
import type { Database, Statement } from './database.ts'

export interface ForgottenCertificate {
  id: string
  accountId: string | undefined
  serialNumber: Buffer
  /** Certificates of its issuer. It is recorded under the first. */
  issuerFingerprints: readonly Buffer[]
  names: readonly string[]
  notBefore: Date
  notAfter: Date
  der: Buffer
  spkiSha256: Buffer
  /** When undefined, the backend of the other certificates of its issuer; without any, the signer. */
  backend?: string
}

export interface CertificateImport {
  /** Every issuer that has signed something here. */
  issuers(): Promise<IssuerCertificate[]>
  /** The issuance whose intent a backup holds without its certificate. */
  findIntent(serialNumber: Buffer): Promise<{ certificateId: string; tbs: Buffer } | undefined>
  hasAccount(id: string): Promise<boolean>
  /** Records it as issued at its notBefore. False when its issuer has given the serial number before. */
  record(certificate: ForgottenCertificate): Promise<boolean>
}

const FIND_INTENT: Statement = {
  name: 'import-intent',
  text: 'SELECT certificate_id AS "certificateId", tbs FROM issuance_intents WHERE serial_number = $1',
}

const HAS_ACCOUNT: Statement = { name: 'import-account', text: 'SELECT FROM accounts WHERE id = $1' }

const RECORD: Statement = {
  name: 'import-certificate',
  text: `
    WITH recorded AS (
      INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                                spki_sha256, issued_at, backend)
      SELECT $1, $2, $3, coalesce(known.issuer_fingerprint, ($4::bytea[])[1]), $5, $6, $7, $8, $9, $6,
             coalesce($10, (SELECT c.backend FROM certificates c WHERE c.issuer_fingerprint = ANY ($4) AND c.der <> '' LIMIT 1))
        FROM (SELECT) x
        LEFT JOIN (SELECT issuer_fingerprint FROM certificates WHERE serial_number = $3 AND issuer_fingerprint = ANY ($4)
                    ORDER BY der = '' LIMIT 1) known ON true
      ON CONFLICT (serial_number, issuer_fingerprint) DO UPDATE
         SET account_id = EXCLUDED.account_id, names = EXCLUDED.names, not_before = EXCLUDED.not_before,
             not_after = EXCLUDED.not_after, der = EXCLUDED.der, spki_sha256 = EXCLUDED.spki_sha256, backend = EXCLUDED.backend
       WHERE certificates.der = ''
      RETURNING id, backend, der, revoked_at, revocation_reason
    ), asked AS (
      -- It was revoked before there was anything to show to its CA.
      INSERT INTO backend_revocations (certificate_id, backend, der, reason)
      SELECT id, backend, der, coalesce(revocation_reason, 0) FROM recorded WHERE revoked_at IS NOT NULL AND backend IS NOT NULL
      ON CONFLICT DO NOTHING
    )
    SELECT id FROM recorded`,
}

const RECORD_UNSEEN: Statement = {
  name: 'record-unseen-certificate',
  // Nothing may be recorded beside an issuance that recovery completes.
  text: `
    INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
    SELECT $1, $2, ($3::bytea[])[1], '{}', now(), $4, ''
     WHERE NOT EXISTS (SELECT FROM issuance_intents WHERE serial_number = $2)
       AND NOT EXISTS (SELECT FROM certificates WHERE serial_number = $2 AND issuer_fingerprint = ANY ($3))
    ON CONFLICT (serial_number, issuer_fingerprint) DO NOTHING RETURNING id`,
}

export interface UnseenCertificate {
  id: string
  serialNumber: Buffer
  /** Certificates of its issuer. It is recorded under the first. */
  issuerFingerprints: readonly Buffer[]
  /** Its CRL entry stays until then. */
  notAfter: Date
}

/**
 * A certificate of which only issuer and serial number are known, so that it can be revoked; its
 * `der` is empty until it is imported. False when its serial number is known or being issued.
 */
export async function recordUnseen(db: Pick<Database, 'query'>, certificate: UnseenCertificate): Promise<boolean> {
  const { id, serialNumber, issuerFingerprints, notAfter } = certificate
  return (await db.query(RECORD_UNSEEN, [id, serialNumber, issuerFingerprints, notAfter])).length > 0
}

/** Every issuer that has signed something here. */
export function listIssuers(db: Pick<Database, 'query'>): Promise<IssuerCertificate[]> {
  return db.query(ISSUER_CERTIFICATES, [])
}

export function createCertificateImport(db: Pick<Database, 'query'>): CertificateImport {
  return {
    issuers: () => listIssuers(db),
    async findIntent(serialNumber) {
      const [intent] = await db.query<{ certificateId: string; tbs: Buffer }>(FIND_INTENT, [serialNumber])
      return intent
    },
    async hasAccount(id) {
      return (await db.query(HAS_ACCOUNT, [id])).length > 0
    },
    async record({ accountId, names, backend, ...certificate }) {
      const { id, serialNumber, issuerFingerprints, notBefore, notAfter, der, spkiSha256 } = certificate
      const values = [
        id,
        accountId ?? null,
        serialNumber,
        issuerFingerprints,
        names,
        notBefore,
        notAfter,
        der,
        spkiSha256,
        backend ?? null,
      ]
      return (await db.query(RECORD, values)).length > 0
    },
  }
}
