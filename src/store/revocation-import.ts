/** SQL of revocations that the database lacks because it was restored to an earlier time. */

import { KEY_COMPROMISE } from '../domain/revocation.ts'
import type { Database, Statement } from './database.ts'
import type { IssuerRevocations } from './signer-mark-store.ts'

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

export interface UnseenCertificate {
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
