/** SQL of issued certificates, their issuers, and revocation. */

import type { Certificate } from '../domain/records.ts'
import { withoutSignOctet } from '../domain/revocation.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from './account-store.ts'
import { resultsByOrd, unlessStale } from './batch-results.ts'
import { batched, type Database, type Statement } from './database.ts'
import { account, authorization } from './status-sql.ts'

interface Revocation {
  certificateId: string
  /** CRLReason (RFC 5280 §5.3.1). */
  reason: number
  /** SHA-256 of the SubjectPublicKeyInfo, to block the key too; for keyCompromise. */
  blockedKey: Buffer | undefined
  /** The holder of the key has proved the compromise: what else has the key is to be revoked. */
  isProved?: boolean
  /** The requesting account; undefined for the holder of the certificate's key, and administrators. */
  requester: Requester | undefined
  /** Now when undefined; of a list that an older database had published. */
  revokedAt?: Date | undefined
}

export interface CommittedRevocation {
  /** In hexadecimal, as the serial number. */
  issuerFingerprint: string
  serialNumber: string
  revokedAt: Date
  reason: number
}

export interface CertificateStore {
  find: Batched<{ requester: Requester; certificateId: string }, Certificate | StaleAccount | undefined>
  /**
   * The newest with this serial number, since several issuers may give the same; one of an account first.
   * @param der only the certificate with these bytes
   */
  findBySerial(serialNumber: Buffer, der?: Buffer): Promise<Certificate | undefined>
  /** Whether the account has a valid authorization for every name (RFC 8555 §7.6); wildcards as `*.x`. */
  isAuthorizedForAll(accountId: string, names: readonly string[]): Promise<boolean>
  /** False when it changed nothing, since it was revoked already. */
  revoke(revocation: Revocation): Promise<boolean | StaleAccount>
  isKeyBlocked(spkiSha256: Buffer): Promise<boolean>
  /** Finds the revoked ones among these certificates. */
  findRevocations(certificateIds: readonly string[]): Promise<CommittedRevocation[]>
  /** Saves an issuer for later downloads, with its chain as it was given last. */
  saveIssuer(fingerprint: Buffer, certificate: Buffer, chain: readonly Buffer[]): Promise<void>
  /** The chain from the issuer upwards. */
  findIssuerChain(fingerprint: string): Promise<readonly Buffer[] | undefined>
  /** Further chains of an issuer that is not the signer's; usually none. */
  findAlternateChains(fingerprint: string): Promise<readonly (readonly Buffer[])[]>
}

const COLUMNS = `c.id, c.account_id, c.order_id, encode(c.serial_number, 'hex') AS serial_number,
           encode(c.issuer_fingerprint, 'hex') AS issuer_fingerprint, c.der, c.not_before, c.not_after, c.revoked_at`

const FIND: Statement = {
  name: 'certificate-find',
  // accounts_pkey, certificates_pkey
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, ${COLUMNS}
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (id, account_id, key_version, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
      LEFT JOIN certificates c ON c.id = i.id`,
}

const FIND_BY_SERIAL: Statement = {
  name: 'certificate-find-by-serial',
  // certificates_serial_issuer
  text: `
    SELECT ${COLUMNS} FROM certificates c WHERE c.serial_number = $1 AND ($2::bytea IS NULL OR c.der = $2)
     ORDER BY c.account_id IS NULL, c.id DESC LIMIT 1`,
}

const AUTHORIZED_NAMES: Statement = {
  name: 'certificate-authorized-names',
  // authorizations_reusable, one range for each name
  text: `
    SELECT bool_and(EXISTS (
             SELECT FROM authorizations z
              WHERE z.account_id = $1 AND z.status ${authorization.is('valid')} AND z.expires_at > now()
                AND z.identifier_value = regexp_replace(name, '^\\*\\.', '') AND z.wildcard = (name LIKE '*.%')
           )) AS all_authorized
      FROM unnest($2::text[]) AS name`,
}

const REVOKE: Statement = {
  name: 'certificate-revoke',
  // Plan: certificates_pkey and certificates_serial_issuer, one row each; a certificate that was recorded under two
  // certificates of its issuer is revoked in both rows. Where a key is blocked, keyCompromise takes the place of another
  // reason, and the date stays (CA/Browser Forum BR 7.2.2).
  text: `
    WITH asking AS (
      SELECT WHERE $4::uuid IS NULL
             OR EXISTS (SELECT FROM accounts a WHERE a.id = $4 AND a.key_version = $5 AND a.status ${account.is('valid')})
    ), revoked AS (
      UPDATE certificates c SET revoked_at = coalesce(c.revoked_at, date_trunc('second', coalesce($6::timestamptz, now()))),
             revocation_reason = $2
        FROM unnest($1::uuid[], $3::bytea[]) AS i (id, blocked_key) JOIN certificates named ON named.id = i.id
       WHERE c.serial_number = named.serial_number AND (c.id = named.id OR c.der = named.der AND c.der <> '')
         AND (c.revoked_at IS NULL OR i.blocked_key IS NOT NULL AND c.revocation_reason IS DISTINCT FROM $2)
         AND EXISTS (SELECT FROM asking) RETURNING c.id
    ), blocked AS (
      -- A key that a file has listed stays blocked when the file lists it no more.
      INSERT INTO blocked_keys AS b (spki_sha256, certificate_id, proved_at)
      SELECT DISTINCT ON (blocked_key) blocked_key, id, CASE WHEN $7 THEN now() END
        FROM unnest($1::uuid[], $3::bytea[]) AS i (id, blocked_key)
       WHERE blocked_key IS NOT NULL AND EXISTS (SELECT FROM asking) ORDER BY blocked_key, id
      ON CONFLICT (spki_sha256) DO UPDATE SET certificate_id = EXCLUDED.certificate_id, proved_at = EXCLUDED.proved_at
       WHERE b.certificate_id IS NULL OR b.proved_at IS NULL AND EXCLUDED.proved_at IS NOT NULL
      RETURNING spki_sha256
    )
    SELECT NOT EXISTS (SELECT FROM asking) AS stale, ARRAY(SELECT id::text FROM revoked) AS revoked,
           EXISTS (SELECT FROM blocked) AS blocked`,
}

const FIND_REVOCATIONS: Statement = {
  name: 'certificate-find-revocations',
  // certificates_pkey
  text: `
    SELECT encode(issuer_fingerprint, 'hex') AS "issuerFingerprint", encode(serial_number, 'hex') AS "serialNumber",
           revoked_at AS "revokedAt", coalesce(revocation_reason, 0) AS reason
      FROM certificates WHERE id = ANY ($1::uuid[]) AND revoked_at IS NOT NULL`,
}

const IS_KEY_BLOCKED: Statement = {
  name: 'blocked-key-find',
  // blocked_keys_pkey, one row each
  text: `
    SELECT encode(i.hash, 'hex') AS hash FROM unnest($1::bytea[]) AS i (hash)
     WHERE EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = i.hash)`,
}

const SAVE_ISSUER: Statement = {
  name: 'issuer-save',
  // An operator may put another cross-signature above the same issuer.
  text: `
    INSERT INTO issuers AS known (fingerprint, certificate, chain) VALUES ($1, $2, $3)
    ON CONFLICT (fingerprint) DO UPDATE SET chain = excluded.chain WHERE known.chain <> excluded.chain`,
}

const FIND_ISSUER: Statement = {
  name: 'issuer-find',
  text: "SELECT chain FROM issuers WHERE fingerprint = decode($1, 'hex')",
}

const FIND_ALTERNATES: Statement = {
  name: 'issuer-find-alternates',
  text: "SELECT alternate_chains FROM issuers WHERE fingerprint = decode($1, 'hex')",
}

/** Certificates of all issuers that have signed here. */
export const ISSUER_CERTIFICATES: Statement = {
  name: 'issuer-certificates',
  text: 'SELECT fingerprint, certificate FROM issuers',
}

interface RevokeRow {
  stale: boolean
  /** Ids of those that were not, or for another reason. */
  revoked: string[]
  /** A key is blocked that was not, or not for this reason. */
  blocked: boolean
}

/** Every revocation, by clients and administrators. False when it changed nothing. */
export async function revokeCertificate(
  db: Pick<Database, 'query'>,
  { certificateId, reason, blockedKey, isProved = false, requester, revokedAt }: Revocation,
): Promise<boolean | StaleAccount> {
  const [row] = await db.query<RevokeRow>(REVOKE, [
    [certificateId],
    reason,
    [blockedKey ?? null],
    requester?.accountId ?? null,
    requester?.keyVersion ?? null,
    revokedAt ?? null,
    isProved,
  ])
  return row?.stale ? STALE_ACCOUNT : row !== undefined && (row.blocked || row.revoked.length > 0)
}

/** Revokes the certificates of a page, for an administrator. @returns the ids of those that were not, or for another reason */
export async function revokeCertificates(
  db: Pick<Database, 'query'>,
  certificates: readonly Pick<Revocation, 'certificateId' | 'blockedKey'>[],
  reason: number,
): Promise<string[]> {
  const [row] = await db.query<RevokeRow>(REVOKE, [
    certificates.map(({ certificateId }) => certificateId),
    reason,
    certificates.map(({ blockedKey }) => blockedKey ?? null),
    null,
    null,
    null,
    false,
  ])
  return row?.revoked ?? []
}

export async function findIssuerChain(
  db: Pick<Database, 'query'>,
  fingerprint: string,
): Promise<readonly Buffer[] | undefined> {
  const rows = await db.query<{ chain: Buffer[] }>(FIND_ISSUER, [fingerprint])
  return rows[0]?.chain
}

interface CertificateRow {
  id: string | null
  account_id: string | null
  order_id: string | null
  serial_number: string
  issuer_fingerprint: string
  der: Buffer
  not_before: Date
  not_after: Date
  revoked_at: Date | null
}

/** Looks for these SHA-256 hashes of public keys. @returns the blocked ones, in hexadecimal */
export async function findBlockedKeys(db: Pick<Database, 'query'>, hashes: readonly Buffer[]): Promise<Set<string>> {
  const rows = await db.query<{ hash: string }>(IS_KEY_BLOCKED, [hashes])
  return new Set(rows.map(({ hash }) => hash))
}

export function createCertificateStore(db: Database): CertificateStore {
  return {
    find: batched(db, async (commands) => {
      const rows = await db.pipeline.run<CertificateRow & { ord: number; stale: boolean }>(FIND, [
        commands.map((c) => c.certificateId),
        commands.map((c) => c.requester.accountId),
        commands.map((c) => c.requester.keyVersion),
      ])
      return resultsByOrd(rows, commands, unlessStale(decode))
    }),
    async findBySerial(serialNumber, der) {
      const rows = await db.query<CertificateRow>(FIND_BY_SERIAL, [withoutSignOctet(serialNumber), der ?? null])
      return rows[0] && decode(rows[0])
    },
    async isAuthorizedForAll(accountId, names) {
      const rows = await db.query<{ all_authorized: boolean | null }>(AUTHORIZED_NAMES, [accountId, names])
      return rows[0]?.all_authorized === true
    },
    revoke: (revocation) => revokeCertificate(db, revocation),
    // In batches, since every new account asks: one statement each cost it 27 % of its rate.
    isKeyBlocked: batched(db, async (hashes: readonly Buffer[]) => {
      const rows = await db.pipeline.run<{ hash: string }>(IS_KEY_BLOCKED, [hashes])
      const blocked = new Set(rows.map(({ hash }) => hash))
      return hashes.map((hash) => blocked.has(hash.toString('hex')))
    }),
    findRevocations: (certificateIds) => db.query(FIND_REVOCATIONS, [certificateIds]),
    async saveIssuer(fingerprint, certificate, chain) {
      await db.query(SAVE_ISSUER, [fingerprint, certificate, chain])
    },
    findIssuerChain: (fingerprint) => findIssuerChain(db, fingerprint),
    async findAlternateChains(fingerprint) {
      const rows = await db.query<{ alternate_chains: string[][] | null }>(FIND_ALTERNATES, [fingerprint])
      return (rows[0]?.alternate_chains ?? []).map((chain) => chain.map((der) => Buffer.from(der, 'base64')))
    },
  }
}

function decode(row: CertificateRow): Certificate {
  return {
    id: row.id as string,
    accountId: row.account_id ?? undefined,
    orderId: row.order_id ?? undefined,
    serialNumber: row.serial_number,
    issuerFingerprint: row.issuer_fingerprint,
    der: row.der,
    notBefore: row.not_before,
    notAfter: row.not_after,
    revokedAt: row.revoked_at ?? undefined,
  }
}
