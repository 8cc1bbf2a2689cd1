/**
 * SQL of the archive: expired certificates as JSON lines, page by page in the order of their expiry, and their removal.
 *
 * A row is removed only as it was read. One that was revoked in between stays, and the next round archives it again.
 */

import type { Database, Statement } from './database.ts'
import { SET_BOUNDS } from './retention-store.ts'

/** Where a page ended. Text keeps the microseconds that a Date would lose. */
export interface ArchivePlace {
  notAfter: string
  id: string
}

export interface ArchivableCertificate extends ArchivePlace {
  isRevoked: boolean
  /** False for a revoked serial number whose certificate is not known. */
  hasContent: boolean
  /** All that the archive keeps, as one line of JSON; null for a row that has to stay. */
  line: string | null
}

export interface ArchiveStore {
  /**
   * Certificates after `place` that expired before `expiredBefore`, also by the slow clock. Fewer than `ARCHIVE_PAGE` are the last.
   * @param revokedBefore a revoked one has to have expired and been revoked before this; undefined: all of them stay
   */
  read(place: ArchivePlace, expiredBefore: Date, revokedBefore: Date | undefined): Promise<ArchivableCertificate[]>
  /** Removes at most `REMOVAL_PAGE` certificates with their orders and all that is about them. @returns how many */
  remove(certificates: readonly ArchivableCertificate[]): Promise<number>
  /** @returns those that are in the database */
  stored(ids: readonly string[]): Promise<string[]>
}

/** In `cleanup_progress`, after the first round. */
export const ARCHIVE_WALK = 'archive of certificates'

export const FIRST_PLACE: ArchivePlace = { notAfter: '-infinity', id: '00000000-0000-0000-0000-000000000000' }

/** An order of 100 names has 400 KB of evidence at most, so a page has 100 MB at most, and usually 400 KB. */
export const ARCHIVE_PAGE = 250
/** Takes a few milliseconds, and locks as many rows. */
export const REMOVAL_PAGE = 1000

const CERTIFICATE = `
           'id', c.id, 'account_id', c.account_id, 'order_id', c.order_id,
           'serial_number', encode(c.serial_number, 'hex'), 'issuer_fingerprint', encode(c.issuer_fingerprint, 'hex'),
           'names', c.names, 'not_before', c.not_before, 'not_after', c.not_after, 'issued_at', c.issued_at,
           'revoked_at', c.revoked_at, 'revocation_reason', c.revocation_reason, 'backend', c.backend,
           'spki_sha256', encode(c.spki_sha256, 'hex'), 'der', replace(encode(c.der, 'base64'), E'\\n', '')`

/** A token proves nothing any more, and would only make the line longer. */
const AUTHORIZATIONS = `
           SELECT json_agg(to_jsonb(z) - '{token,validating_by,validating_since}'::text[] ORDER BY z.id)
             FROM authorizations z WHERE z.id = ANY (o.authorization_ids)`

const TIMESTAMPS = `
           SELECT json_agg(json_build_object('log_url', t.log_url, 'log_id', encode(t.log_id, 'hex'), 'signed_at', t.signed_at,
                    'extensions', encode(t.extensions, 'hex'), 'signature', encode(t.signature, 'hex'), 'verified', t.verified))
             FROM signed_certificate_timestamps t WHERE t.certificate_id = c.id`

const READ: Statement = {
  name: 'archive-read',
  // One range of certificates_not_after; by key: orders, authorizations, timestamps, backend_revocations.
  text: `
    WITH page AS MATERIALIZED (
      SELECT * FROM certificates
       WHERE not_after >= $1::timestamptz AND not_after < least($3, slow_now()) AND (not_after, id) > ($1::timestamptz, $2::uuid)
       ORDER BY not_after, id LIMIT ${ARCHIVE_PAGE}
    )
    SELECT c.id, c.not_after::text AS "notAfter", c.revoked_at IS NOT NULL AS "isRevoked", c.der <> '' AS "hasContent",
           CASE WHEN c.revoked_at IS NULL
                  OR greatest(c.not_after, c.revoked_at) < $4
                     AND NOT EXISTS (SELECT FROM backend_revocations b WHERE b.certificate_id = c.id)
                THEN json_build_object(${CERTIFICATE},
           'order', to_jsonb(o) - '{account_id,certificate_id,request_key}'::text[],
           'authorizations', (${AUTHORIZATIONS}),
           'timestamps', (${TIMESTAMPS}))::text END AS line
      FROM page c LEFT JOIN orders o ON o.id = c.order_id
     ORDER BY c.not_after, c.id`,
}

const ABOUT_IT = [
  'renewal_advice',
  'upstream_renewals',
  'expiration_notices',
  'replacements',
  'signed_certificate_timestamps',
]

const REMOVE: Statement = {
  name: 'archive-remove',
  // certificates_pkey, orders_pkey, and the primary key of each table of ABOUT_IT, which begins with certificate_id
  text: `
    WITH gone AS (
      DELETE FROM certificates c USING unnest($1::uuid[], $2::boolean[], $3::boolean[]) AS read (id, is_revoked, has_content)
       WHERE c.id = read.id AND (c.revoked_at IS NOT NULL) = read.is_revoked AND (c.der <> '') = read.has_content
      RETURNING c.id, c.order_id
    ), orders_gone AS (
      DELETE FROM orders o USING gone WHERE o.id = gone.order_id
    ), ${ABOUT_IT.map((table) => `${table}_gone AS (DELETE FROM ${table} t USING gone WHERE t.certificate_id = gone.id)`).join(', ')}
    SELECT count(*)::integer AS removed FROM gone`,
}

const STORED: Statement = {
  name: 'archive-stored',
  // certificates_pkey
  text: 'SELECT id FROM certificates WHERE id = ANY ($1::uuid[])',
}

export function createArchiveStore(db: Database): ArchiveStore {
  return {
    read: ({ notAfter, id }, expiredBefore, revokedBefore) =>
      db.query(READ, [notAfter, id, expiredBefore, revokedBefore ?? null]),
    async remove(certificates) {
      const columns = [
        certificates.map(({ id }) => id),
        certificates.map(({ isRevoked }) => isRevoked),
        certificates.map(({ hasContent }) => hasContent),
      ]
      const [row] = await db.transaction(async (tx) => {
        await tx.query(SET_BOUNDS, [])
        return tx.query<{ removed: number }>(REMOVE, columns)
      })
      return row?.removed ?? 0
    },
    stored: async (ids) => (await db.query<{ id: string }>(STORED, [ids])).map(({ id }) => id),
  }
}
