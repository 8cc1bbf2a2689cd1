/** SQL of certificates and revocations that the database lacks because it was restored to an earlier time. */

import type { CertificateNames } from '../domain/certificate-names.ts'
import type { IssuerCertificate } from '../domain/crl-scope.ts'
import { KEY_COMPROMISE } from '../domain/revocation.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { withoutNulls } from './batch-results.ts'
import { ISSUER_CERTIFICATES } from './certificate-store.ts'
import type { Database, Statement } from './database.ts'
import type { IssuanceStore } from './issuance-store.ts'
import type { IssuerRevocations } from './signer-mark-store.ts'
import { order } from './status-sql.ts'

interface ForgottenCertificate extends CertificateNames {
  id: string
  /** Left out where it no longer exists. */
  accountId: string | undefined
  /** Becomes valid with the certificate where it is still open, and of that account. */
  orderId?: string | undefined
  serialNumber: Buffer
  notBefore: Date
  notAfter: Date
  /** Left out where nobody knows: notBefore counts. */
  issuedAt?: Date
  der: Buffer
  spkiSha256: Buffer
}

/**
 * The backend that has issued; `as its issuer` is the backend of the issuer's other certificates, and the signer
 * without any.
 */
type ImportedFrom = { backend: string | undefined } | 'as its issuer'

export interface RecordedCertificate {
  id: string
  accountId: string | undefined
  orderId: string | undefined
  serialNumber: string
  names: readonly string[]
}

export interface CertificateImport {
  /** Every issuer that has signed something here. */
  issuers(): Promise<IssuerCertificate[]>
  /** Issuances whose intent a backup holds without its certificate, by serial number in hexadecimal. */
  findIntents(serialNumbers: readonly Buffer[]): Promise<ReadonlyMap<string, { certificateId: string; tbs: Buffer }>>
  /** The thumbprint of an account's key. */
  thumbprintOf(accountId: string): Promise<string | undefined>
  /**
   * Records certificates under the first certificate of their issuer unless their serial number stands under another. Ids, orders and serial numbers must not repeat. An id that is taken is replaced.
   * @param issuerFingerprints certificates of their one issuer
   * @returns those whose issuer had not given the serial number before
   */
  record(
    issuerFingerprints: readonly Buffer[],
    certificates: readonly ForgottenCertificate[],
    from: ImportedFrom,
  ): Promise<RecordedCertificate[]>
}

const FIND_INTENTS: Statement = {
  name: 'import-intents',
  text: `
    SELECT encode(serial_number, 'hex') AS "serialNumber", certificate_id AS "certificateId", tbs
      FROM issuance_intents WHERE serial_number = ANY ($1)`,
}

const THUMBPRINT: Statement = { name: 'import-account', text: 'SELECT thumbprint FROM accounts WHERE id = $1' }

const RECORD: Statement = {
  name: 'import-certificates',
  // For each: certificates_serial_issuer, certificates_pkey, accounts_pkey, orders_pkey, order_claims_pkey.
  text: `
    WITH given AS MATERIALIZED (
      SELECT CASE WHEN EXISTS (SELECT FROM certificates c WHERE c.id = i.id) THEN gen_random_uuid() ELSE i.id END AS id,
             (SELECT a.id FROM accounts a WHERE a.id = coalesce(i.account_id, (SELECT o.account_id FROM orders o WHERE o.id = i.order_id)))
               AS account_id,
             coalesce(known.issuer_fingerprint, ($1::bytea[])[1]) AS issuer_fingerprint, known.issuer_fingerprint IS NULL AS is_new,
             i.order_id, i.serial_number, ARRAY(SELECT jsonb_array_elements_text(i.names)) AS names, i.identifiers, i.not_before, i.not_after,
             coalesce(i.issued_at, i.not_before) AS issued_at, i.der, i.spki_sha256
        FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::bytea[], $6::jsonb[], $7::timestamptz[], $8::timestamptz[], $9::bytea[],
                    $10::bytea[], $13::timestamptz[], $14::smallint[])
             AS i (id, account_id, order_id, serial_number, names, not_before, not_after, der, spki_sha256, issued_at, identifiers)
        LEFT JOIN LATERAL (SELECT c.issuer_fingerprint FROM certificates c
                            WHERE c.serial_number = i.serial_number AND c.issuer_fingerprint = ANY ($1)
                            ORDER BY c.der = '' LIMIT 1) known ON true
    ), moved AS (
      UPDATE orders o SET status = ${order.after('restored')}, certificate_id = i.id
        FROM given i
       WHERE o.id = i.order_id AND o.account_id = i.account_id AND i.is_new AND o.status ${order.allows('restored')}
      RETURNING i.id, o.id AS order_id, o.request_key
    ), released AS (
      DELETE FROM order_claims c USING moved WHERE c.request_key = moved.request_key AND c.order_id = moved.order_id
    ), recorded AS (
      INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, identifiers, not_before, not_after,
                                der, spki_sha256, issued_at, backend)
      SELECT i.id, i.account_id, m.order_id, i.serial_number, i.issuer_fingerprint, i.names, i.identifiers, i.not_before, i.not_after, i.der,
             i.spki_sha256, i.issued_at,
             CASE WHEN $11 THEN $12
                  ELSE (SELECT c.backend FROM certificates c WHERE c.issuer_fingerprint = ANY ($1) AND c.der <> '' LIMIT 1) END
        FROM given i LEFT JOIN moved m ON m.id = i.id
      ON CONFLICT (serial_number, issuer_fingerprint) DO UPDATE
         SET account_id = EXCLUDED.account_id, names = EXCLUDED.names, identifiers = EXCLUDED.identifiers, not_before = EXCLUDED.not_before,
             not_after = EXCLUDED.not_after, der = EXCLUDED.der, spki_sha256 = EXCLUDED.spki_sha256, backend = EXCLUDED.backend
       WHERE certificates.der = ''
      RETURNING id, account_id, order_id, serial_number, names, backend, der, spki_sha256, revoked_at, revocation_reason
    ), blocked AS (
      -- It was revoked as compromised before its key was known.
      INSERT INTO blocked_keys AS b (spki_sha256, certificate_id)
      SELECT DISTINCT ON (spki_sha256) spki_sha256, id FROM recorded
       WHERE revoked_at IS NOT NULL AND revocation_reason = ${KEY_COMPROMISE} ORDER BY spki_sha256, id
      ON CONFLICT (spki_sha256) DO UPDATE
         SET certificate_id = coalesce(b.certificate_id, EXCLUDED.certificate_id), spread_at = NULL
      RETURNING spki_sha256
    ), compromised AS (
      -- A statement may change a row once.
      UPDATE blocked_keys b SET spread_at = NULL FROM recorded r
       WHERE b.spki_sha256 = r.spki_sha256 AND b.proved_at IS NOT NULL AND r.revocation_reason IS DISTINCT FROM ${KEY_COMPROMISE}
         AND r.spki_sha256 NOT IN (SELECT spki_sha256 FROM blocked)
    ), asked AS (
      -- It was revoked before there was anything to show to its CA.
      INSERT INTO backend_revocations (certificate_id, backend, der, reason)
      SELECT id, backend, der, coalesce(revocation_reason, 0) FROM recorded WHERE revoked_at IS NOT NULL AND backend IS NOT NULL
      ON CONFLICT DO NOTHING
    )
    SELECT id, account_id AS "accountId", order_id AS "orderId", encode(serial_number, 'hex') AS "serialNumber", names FROM recorded`,
}

/** Every issuer that has signed something here. */
export function listIssuers(db: Pick<Database, 'query'>): Promise<IssuerCertificate[]> {
  return db.query(ISSUER_CERTIFICATES, [])
}

export function createCertificateImport(db: Pick<Database, 'query'>): CertificateImport {
  return {
    issuers: () => listIssuers(db),
    async findIntents(serialNumbers) {
      type Row = { serialNumber: string; certificateId: string; tbs: Buffer }
      const rows = await db.query<Row>(FIND_INTENTS, [serialNumbers])
      return new Map(rows.map((row) => [row.serialNumber, row]))
    },
    async thumbprintOf(accountId) {
      return (await db.query<{ thumbprint: string }>(THUMBPRINT, [accountId]))[0]?.thumbprint
    },
    async record(issuerFingerprints, certificates, from) {
      const rows = await db.query<RecordedCertificate>(RECORD, [
        issuerFingerprints,
        certificates.map((one) => one.id),
        certificates.map((one) => one.accountId),
        certificates.map((one) => one.orderId),
        certificates.map((one) => one.serialNumber),
        certificates.map((one) => JSON.stringify(one.names)),
        certificates.map((one) => one.notBefore),
        certificates.map((one) => one.notAfter),
        certificates.map((one) => one.der),
        certificates.map((one) => one.spkiSha256),
        from !== 'as its issuer',
        from === 'as its issuer' ? null : (from.backend ?? null),
        certificates.map((one) => one.issuedAt),
        certificates.map((one) => one.identifiers),
      ])
      return rows.map(withoutNulls)
    },
  }
}

const FIND_RECORDED: Statement = {
  name: 'import-find-certificates',
  // certificates_serial_issuer, one range a serial number
  text: `
    SELECT encode(serial_number, 'hex') AS "serialNumber", der, revoked_at IS NOT NULL AS "isRevoked"
      FROM certificates WHERE serial_number = ANY ($1::bytea[]) AND issuer_fingerprint = ANY ($2::bytea[])`,
}

interface KnownCertificate {
  serialNumber: string
  /** Empty where only the serial number is known. */
  der: Buffer
  isRevoked: boolean
}

/** Finds certificates of one issuer. */
export function findRecorded(
  db: Pick<Database, 'query'>,
  issuerFingerprints: readonly Buffer[],
  serialNumbers: readonly Buffer[],
): Promise<KnownCertificate[]> {
  return db.query(FIND_RECORDED, [serialNumbers, issuerFingerprints])
}

const RECORD_UNSEEN: Statement = {
  name: 'record-unseen-certificates',
  // Nothing may be recorded beside an issuance that recovery completes.
  text: `
    INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
    SELECT i.id, i.serial_number, ($3::bytea[])[1], '{}', now(), $4, ''
      FROM unnest($1::uuid[], $2::bytea[]) AS i (id, serial_number)
     WHERE NOT EXISTS (SELECT FROM issuance_intents n WHERE n.serial_number = i.serial_number)
       AND NOT EXISTS (SELECT FROM certificates c WHERE c.serial_number = i.serial_number AND c.issuer_fingerprint = ANY ($3))
    ON CONFLICT (serial_number, issuer_fingerprint) DO NOTHING RETURNING id`,
}

interface UnseenCertificate {
  id: string
  serialNumber: Buffer
}

/**
 * Certificates of which only issuer and serial number are known, so that they can be revoked; `der` is empty until they are
 * imported. Those whose serial number is known or being issued are left out.
 * @param issuerFingerprints certificates of their issuer; they are recorded under the first
 * @param notAfter their CRL entries stay until then
 * @returns the ids of the others
 */
export async function recordUnseen(
  db: Pick<Database, 'query'>,
  issuerFingerprints: readonly Buffer[],
  notAfter: Date,
  certificates: readonly UnseenCertificate[],
): Promise<string[]> {
  const [ids, serialNumbers] = [certificates.map(({ id }) => id), certificates.map((one) => one.serialNumber)]
  const rows = await db.query<{ id: string }>(RECORD_UNSEEN, [ids, serialNumbers, issuerFingerprints, notAfter])
  return rows.map(({ id }) => id)
}

const REVOKE_LISTED: Statement = {
  name: 'certificates-revoke-listed',
  // certificates_serial_issuer, one range a serial number
  text: `
    WITH revoked AS (
      UPDATE certificates c SET revoked_at = coalesce(c.revoked_at, date_trunc('second', i.revoked_at)), revocation_reason = i.reason
        FROM unnest($1::bytea[], $2::timestamptz[], $3::integer[]) AS i (serial_number, revoked_at, reason)
       WHERE c.serial_number = i.serial_number AND c.issuer_fingerprint = ANY ($4)
         AND (c.revoked_at IS NULL OR i.reason = ${KEY_COMPROMISE} AND c.revocation_reason IS DISTINCT FROM i.reason)
      RETURNING c.id, c.account_id, c.serial_number, c.revocation_reason, c.spki_sha256
    ), blocked AS (
      INSERT INTO blocked_keys AS b (spki_sha256, certificate_id)
      SELECT DISTINCT ON (spki_sha256) spki_sha256, id FROM revoked
       WHERE revocation_reason = ${KEY_COMPROMISE} AND spki_sha256 IS NOT NULL ORDER BY spki_sha256, id
      ON CONFLICT (spki_sha256) DO UPDATE SET certificate_id = EXCLUDED.certificate_id WHERE b.certificate_id IS NULL
    )
    SELECT id, account_id AS "accountId", encode(serial_number, 'hex') AS "serialNumber", revocation_reason AS reason FROM revoked`,
}

export interface RestoredRevocation {
  id: string
  accountId: string | null
  serialNumber: string
  reason: number
}

/** Revokes at the time and with the reason that a list had, or makes the reason keyCompromise; that key is blocked. */
export function revokeListed(
  db: Pick<Database, 'query'>,
  { issuerFingerprints, entries }: IssuerRevocations,
): Promise<RestoredRevocation[]> {
  return db.query(REVOKE_LISTED, [
    entries.map(({ serialNumber }) => Buffer.from(serialNumber, 'hex')),
    entries.map(({ revokedAt }) => revokedAt),
    entries.map(({ reason }) => reason),
    issuerFingerprints,
  ])
}

/** The statements by which what the signer has recorded comes back. */
export interface RestorationStore {
  imports: CertificateImport
  issuance: Pick<IssuanceStore, 'complete'>
  /**
   * Revokes what a list has revoked, in one transaction. A certificate that is unknown gets a row without DER
   * (docs/decisions/lost-certificates.md).
   * @param notAfter of such a row
   */
  revoke(revocations: IssuerRevocations, notAfter: Date): Promise<RestoredRevocation[]>
}

export function restorationStore(db: Database, issuance: Pick<IssuanceStore, 'complete'>): RestorationStore {
  return {
    imports: createCertificateImport(db),
    issuance,
    revoke: (revocations, notAfter) =>
      db.transaction(async (tx) => {
        const unseen = revocations.entries.map(({ serialNumber }) => ({
          id: uuidv7(Date.now()),
          serialNumber: Buffer.from(serialNumber, 'hex'),
        }))
        await recordUnseen(tx, revocations.issuerFingerprints, notAfter, unseen)
        return revokeListed(tx, revocations)
      }),
  }
}
