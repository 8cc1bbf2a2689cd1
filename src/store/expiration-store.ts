/**
 * SQL of warnings of expiry. Each threshold walks along `certificates_not_after` and keeps its place,
 * so a round reads only what has come due since the one before.
 *
 * Warning, mark and place are one transaction: a crash neither loses nor repeats a warning.
 */

import type { Database, Statement } from './database.ts'

export interface ExpirationPage {
  /** Certificates that were looked at. */
  seen: number
  warned: number
}

export interface ExpirationStore {
  /**
   * Warns of one page of certificates whose notAfter lies in (`from`, `until`], from where the
   * threshold stopped.
   */
  warn(warningDays: number, from: Date, until: Date): Promise<ExpirationPage>
  /** How many certificates expire between the two times; revoked ones count. */
  count(from: Date, until: Date): Promise<number>
}

/** A large account is looked through once a page, so a page is large. */
const PAGE_SIZE = 2_000

/** What another certificate of the account replaces, as rows of `replaced`. */
type Replaced = { name: string; ctes: string }

/**
 * certificates_names, where it was made (optional-indexes.ts): a look-up for each certificate. Forced as
 * in certificate-list.ts.
 */
const BY_NAME: Replaced = {
  name: 'expiration-warn-by-name',
  ctes: `
    replaced AS MATERIALIZED (
      SELECT p.id FROM open p
       WHERE p.name IS NOT NULL AND EXISTS (
         SELECT FROM (SELECT id, account_id, not_after, revoked_at FROM certificates n WHERE n.names @> p.names OFFSET 0) n
          WHERE n.account_id = p.account_id AND n.id <> p.id AND n.not_after > p.not_after AND n.revoked_at IS NULL)`,
}

/**
 * orders_account from the oldest of the page on, once for each of its accounts, and certificates_pkey for
 * those that share a name. An account with many orders takes long.
 */
const BY_ACCOUNT: Replaced = {
  name: 'expiration-warn',
  ctes: `
    later AS MATERIALIZED (
      SELECT o.account_id, o.certificate_id, v.value->>'value' AS name
        FROM (SELECT DISTINCT ON (account_id) account_id, since FROM open ORDER BY account_id, since) a
        JOIN orders o ON o.account_id = a.account_id AND o.id > a.since AND o.certificate_id IS NOT NULL
       CROSS JOIN LATERAL jsonb_array_elements(o.identifiers) AS v
       -- As a look-up in a hash: a join would read the orders of an account once for each of its certificates.
       WHERE ((o.account_id, v.value->>'value') IN (SELECT account_id, name FROM open)) IS TRUE
    ), replaced AS MATERIALIZED (
      SELECT DISTINCT p.id FROM open p
        JOIN later l ON l.account_id = p.account_id AND l.name = p.name AND l.certificate_id <> p.id
        JOIN certificates n ON n.id = l.certificate_id
       WHERE n.revoked_at IS NULL AND n.not_after > p.not_after AND n.names @> p.names`,
}

const warnStatement = ({ name, ctes }: Replaced): Statement => ({
  name,
  // expiration_progress_pkey, one range of certificates_not_after, replacements_pkey
  text: `
    WITH place AS MATERIALIZED (
      SELECT coalesce(max(not_after), $2::timestamptz) AS not_after,
             coalesce((array_agg(certificate_id))[1], '00000000-0000-0000-0000-000000000000') AS id
        FROM expiration_progress WHERE warning_days = $1::integer AND not_after > $2
    ), page AS MATERIALIZED (
      SELECT c.id, c.account_id, c.order_id, c.serial_number, c.names, c.not_before, c.not_after, c.revoked_at
        FROM certificates c
       WHERE c.not_after >= (SELECT not_after FROM place) AND c.not_after <= $3
         AND (c.not_after, c.id) > (SELECT not_after, id FROM place)
       ORDER BY c.not_after, c.id LIMIT ${PAGE_SIZE}
    ), open AS MATERIALIZED (
      SELECT p.id, p.account_id, p.serial_number, p.names, p.not_after, p.names[1] AS name,
             coalesce(p.order_id, (lpad(to_hex((extract(epoch FROM p.not_before) * 1000)::bigint), 12, '0')
                                   || '70008000000000000000')::uuid) AS since
        FROM page p
       WHERE p.revoked_at IS NULL AND p.account_id IS NOT NULL
         AND NOT EXISTS (SELECT FROM replacements r JOIN orders o ON o.id = r.order_id
                          WHERE r.certificate_id = p.id AND o.certificate_id IS NOT NULL)
    ), ${ctes}
    ), marked AS (
      INSERT INTO expiration_notices (certificate_id, warning_days)
      SELECT id, $1 FROM open WHERE id NOT IN (SELECT id FROM replaced)
      ON CONFLICT DO NOTHING RETURNING certificate_id
    ), event AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, p.id, p.account_id, p.not_after, jsonb_build_object(
               'certificate_id', p.id, 'account_id', p.account_id, 'serial_number', encode(p.serial_number, 'hex'),
               'domains', p.names, 'not_after', rfc3339(p.not_after), 'warning_days', $1::integer) AS data
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
})
const WARN_BY_NAME = warnStatement(BY_NAME)
const WARN_BY_ACCOUNT = warnStatement(BY_ACCOUNT)

/** Connections join along keys alone, which suits a few rows. */
const HASH_JOINS: Statement = {
  name: 'expiration-hash-joins',
  text: "SELECT set_config('enable_hashjoin', 'on', true)",
}

const HAS_NAMES: Statement = {
  name: 'expiration-has-names',
  text: "SELECT FROM pg_index WHERE indexrelid = to_regclass('certificates_names') AND indisvalid",
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
        const hasNames = (await tx.query(HAS_NAMES, [])).length > 0
        return tx.query<ExpirationPage>(hasNames ? WARN_BY_NAME : WARN_BY_ACCOUNT, [warningDays, from, until])
      })
      return page ?? { seen: 0, warned: 0 }
    },
    async count(from, until) {
      const [row] = await db.query<{ expiring: number }>(COUNT, [from, until])
      return row?.expiring ?? 0
    },
  }
}
