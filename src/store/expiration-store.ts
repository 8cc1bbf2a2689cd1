/**
 * SQL of warnings of expiry. Each threshold walks along `certificates_not_after` and keeps its place,
 * so a round reads only what has come due since the one before.
 *
 * Warning, mark and place are one transaction: a crash neither loses nor repeats a warning.
 */

import type { Database, Statement } from './database.ts'

interface ExpirationPage {
  /** Certificates that were looked at. */
  seen: number
  warned: number
}

export interface ExpirationStore {
  /** Warns of one page of certificates whose notAfter lies in (`from`, `until`], from where the threshold stopped. */
  warn(warningDays: number, from: Date, until: Date): Promise<ExpirationPage>
  /** How many certificates expire between the two times; revoked ones count. */
  count(from: Date, until: Date): Promise<number>
}

const PAGE_SIZE = 2_000

/** The names of a certificate `c` that its successor must have. An order cannot have the others (certificate-names.ts). */
export const NAMES_TO_SUCCEED = 'c.names[:coalesce(c.identifiers, cardinality(c.names))]'

const WARN: Statement = {
  name: 'expiration-warn',
  // A place beyond $3 is of a clock that was ahead: the walk begins anew, and the marks keep it from repeating itself.
  // expiration_progress_pkey, one range of certificates_not_after, replacements_pkey; certificates_names, forced as
  // in certificate-ways.ts.
  text: `
    WITH place AS MATERIALIZED (
      SELECT coalesce(max(not_after), $2::timestamptz) AS not_after,
             coalesce((array_agg(certificate_id))[1], '00000000-0000-0000-0000-000000000000') AS id
        FROM expiration_progress WHERE warning_days = $1::integer AND not_after > $2 AND not_after <= $3
    ), page AS MATERIALIZED (
      SELECT c.id, c.account_id, c.order_id, c.serial_number, c.names, ${NAMES_TO_SUCCEED} AS wanted, c.not_before, c.not_after,
             c.revoked_at
        FROM certificates c
       WHERE c.not_after >= (SELECT not_after FROM place) AND c.not_after <= $3
         AND (c.not_after, c.id) > (SELECT not_after, id FROM place)
       ORDER BY c.not_after, c.id LIMIT ${PAGE_SIZE}
    ), open AS MATERIALIZED (
      SELECT p.id, p.account_id, p.serial_number, p.names, p.wanted, p.not_after
        FROM page p
       WHERE p.revoked_at IS NULL AND p.account_id IS NOT NULL
         AND NOT EXISTS (SELECT FROM replacements r JOIN orders o ON o.id = r.order_id
                          WHERE r.certificate_id = p.id AND o.certificate_id IS NOT NULL)
    ), replaced AS MATERIALIZED (
      SELECT p.id FROM open p
       WHERE p.wanted <> '{}' AND EXISTS (
         SELECT FROM (SELECT id, account_id, not_after, revoked_at FROM certificates n WHERE n.names @> p.wanted OFFSET 0) n
          WHERE n.account_id = p.account_id AND n.id <> p.id AND n.not_after > p.not_after AND n.revoked_at IS NULL)
    ), marked AS (
      INSERT INTO expiration_notices (certificate_id, warning_days)
      SELECT id, $1 FROM open WHERE id NOT IN (SELECT id FROM replaced)
      ON CONFLICT DO NOTHING RETURNING certificate_id
    ), event AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, p.id, p.account_id, p.not_after, jsonb_build_object(
               'warning_days', $1::integer,
               'row', jsonb_build_object('serial_number', p.serial_number, 'names', p.names, 'not_after', p.not_after)) AS data
        FROM marked m JOIN open p ON p.id = m.certificate_id
    ), told AS (
      INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
      SELECT c.name, e.event_id, 'certificate.expiration', e.id::text, e.account_id, clock_timestamp(), e.data
        FROM event e JOIN event_consumers c ON 'certificate.expiration' = ANY (c.kinds)
       WHERE 'certificate.expiration' <> ALL (c.holder_kinds)
          OR (SELECT h.contacts <> '{}' FROM accounts h WHERE h.id = e.account_id)
       ORDER BY e.not_after, e.id
    ), moved AS (
      INSERT INTO expiration_progress (warning_days, not_after, certificate_id)
      SELECT $1, not_after, id FROM page ORDER BY not_after DESC, id DESC LIMIT 1
      ON CONFLICT (warning_days) DO UPDATE SET not_after = excluded.not_after, certificate_id = excluded.certificate_id
    )
    SELECT (SELECT count(*)::integer FROM page) AS seen, (SELECT count(*)::integer FROM marked) AS warned`,
}

/** Connections join along keys alone, which suits a few rows. */
const HASH_JOINS: Statement = {
  name: 'expiration-hash-joins',
  text: "SELECT set_config('enable_hashjoin', 'on', true)",
}

const COUNT: Statement = {
  name: 'expiration-count',
  // Reads certificates_not_after alone.
  text: 'SELECT count(*)::integer AS expiring FROM certificates WHERE not_after > $1 AND not_after <= $2',
}

export const isFullPage = ({ seen }: ExpirationPage) => seen === PAGE_SIZE

export function createExpirationStore(db: Database): ExpirationStore {
  return {
    async warn(warningDays, from, until) {
      const [page] = await db.transaction(async (tx) => {
        await tx.query(HASH_JOINS, [])
        return tx.query<ExpirationPage>(WARN, [warningDays, from, until])
      })
      return page ?? { seen: 0, warned: 0 }
    },
    async count(from, until) {
      const [row] = await db.query<{ expiring: number }>(COUNT, [from, until])
      return row?.expiring ?? 0
    },
  }
}
