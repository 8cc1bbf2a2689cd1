/**
 * SQL of the load: PostgreSQL itself makes the rows, from their numbers.
 *
 * Random-looking digits come from a hash of the number, times from its place in the history. So no row has to be looked up to make
 * another: an order knows the ids of its account, authorizations and certificate without reading them.
 */

import type { Statement } from '../../src/store/database.ts'
import { WITHOUT_CERTIFICATE } from './plan.ts'

/** A version 7 UUID of these milliseconds; `digits` are 18 hexadecimal ones. */
const uuid = (ms: string, digits: string) =>
  `(lpad(to_hex(${ms}), 12, '0') || '7' || substr(${digits}, 1, 3) || '8' || substr(${digits}, 4))::uuid`

const base64url = (octets: string) => `rtrim(translate(encode(${octets}, 'base64'), E'+/\\n', '-_'), '=')`
const rfc3339 = (at: string) => `to_char(${at} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
const utcTime = (at: string) => `convert_to(to_char(${at} AT TIME ZONE 'UTC', 'YYMMDDHH24MISS"Z"'), 'SQL_ASCII')`

/** Accounts were registered in the year before the first order, evenly. */
const ACCOUNT_YEAR_MS = 365 * 86_400_000
/** @param account,count,start SQL of its number, of how many there are, and of the milliseconds of the first order */
const accountId = (account: string, count: string, start: string) =>
  uuid(
    `(${start} - ${ACCOUNT_YEAR_MS} + floor(${ACCOUNT_YEAR_MS}.0 * ${account} / ${count})::bigint)`,
    `substr(md5('account ' || ${account}), 1, 18)`,
  )

export const CREATE_MARKER: Statement = {
  name: 'load-create-marker',
  text: `
    CREATE TABLE IF NOT EXISTS bench_load (
      kind text NOT NULL,
      first bigint NOT NULL,
      figures jsonb,
      PRIMARY KEY (kind, first)
    )`,
}

export const FIND_MARKER: Statement = {
  name: 'load-find-marker',
  text: "SELECT to_regclass('bench_load') IS NOT NULL AS marked, EXISTS (SELECT FROM accounts) AS used",
}

export const SAVE_FIGURES: Statement = {
  name: 'load-save-figures',
  text: "INSERT INTO bench_load (kind, first, figures) VALUES ('figures', 0, $1) ON CONFLICT DO NOTHING",
}

export const READ_MARKER: Statement = {
  name: 'load-read-marker',
  text: 'SELECT kind, first::float8, figures FROM bench_load',
}

export const QUICK_COMMIT: Statement = {
  name: 'load-quick-commit',
  text: "SELECT set_config('synchronous_commit', 'off', true)",
}

/** $1, $2: numbers; $3: how many; $4: milliseconds of the first order; $5: JWK of the first account, its thumbprint in $6. */
export const INSERT_ACCOUNTS: Statement = {
  name: 'load-insert-accounts',
  text: `
    WITH g AS (
      SELECT n, '{"crv":"P-256","kty":"EC","x":"' || ${base64url("sha256(convert_to('x' || n, 'UTF8'))")} || '","y":"' ||
                ${base64url("sha256(convert_to('y' || n, 'UTF8'))")} || '"}' AS jwk
        FROM generate_series($1::bigint, $2::bigint - 1) AS n
    ), made AS (
      INSERT INTO accounts (id, thumbprint, jwk, status, contacts, terms_agreed, created_at)
      SELECT ${accountId('n', '$3::bigint', '$4::bigint')},
             CASE n WHEN 0 THEN $6 ELSE ${base64url("sha256(convert_to(jwk, 'UTF8'))")} END,
             CASE n WHEN 0 THEN $5 ELSE jwk END,
             CASE WHEN n % 200 = 199 THEN 'deactivated' ELSE 'valid' END,
             CASE WHEN n % 5 = 4 THEN '{}' ELSE ARRAY['mailto:admin@' || to_hex(n) || '.example.com'] END, true,
             to_timestamp(($4::bigint - ${ACCOUNT_YEAR_MS} + floor(${ACCOUNT_YEAR_MS}.0 * n / $3::bigint)) / 1000.0)
        FROM g
    )
    INSERT INTO bench_load (kind, first) VALUES ('accounts', $1)`,
}

const { failed, abandoned, refused } = WITHOUT_CERTIFICATE
const FAILURE = `'{"type": "urn:ietf:params:acme:error:connection", "detail": "no answer from 192.0.2.1 port 80", "status": 400}'`

/**
 * $1, $2: numbers; $3: how many orders; $4, $5: milliseconds of the first and the last; $6: sites; $7: those of the first
 * account; $8: accounts; $9: fingerprints of the two issuers; $10: pieces of their templates (template.ts), without and with
 * a second name, one after the other; $11: number of the first order under the second issuer.
 */
export const INSERT_ORDERS: Statement = {
  name: 'load-insert-orders',
  text: `
    WITH numbered AS (
      SELECT n, n % $6::bigint AS site, encode(sha512(convert_to('order ' || n, 'UTF8')), 'hex') AS h,
             $4::bigint + floor(($5::bigint - $4::bigint)::float8 * n / $3::bigint)::bigint AS ms
        FROM generate_series($1::bigint, $2::bigint - 1) AS n
    ), dated AS (
      SELECT *, to_timestamp(ms / 1000.0) AS at, to_timestamp($5::bigint / 1000.0) AS today,
             site % 7 = 0 AS with_www, CASE WHEN n < $11::bigint THEN 0 ELSE 1 END AS issuer,
             ('x' || substr(h, 1, 4))::bit(16)::integer % 1000 AS fate,
             (ARRAY['shop', 'mail', 'blog', 'docs', 'wiki', 'team', 'host', 'data'])[1 + site % 8] || '-' ||
               lpad(to_hex(site * 2654435761 % 4294967296), 8, '0') || '.' ||
               (ARRAY['example.com', 'example.net', 'example.org'])[1 + site % 3] AS name,
             CASE WHEN site < $7::bigint THEN 0 ELSE 1 + site * 7919 % ($8::bigint - 1) END AS account
        FROM numbered
    ), g AS MATERIALIZED (
      SELECT *, ${accountId('account', '$8::bigint', '$4::bigint')} AS account_id,
             ${uuid('ms', 'substr(h, 5, 18)')} AS order_id, ${uuid('ms + 200', 'substr(h, 23, 18)')} AS certificate_id,
             CASE WHEN fate < ${failed} THEN 'failed' WHEN fate < ${failed + abandoned} THEN 'abandoned'
                  WHEN fate < ${failed + abandoned + refused} THEN 'refused' ELSE 'issued' END AS outcome,
             CASE WHEN with_www THEN ARRAY[name, 'www.' || name] ELSE ARRAY[name] END AS names,
             ARRAY[${uuid('ms', "(substr(h, 41, 17) || '0')")}] ||
               CASE WHEN with_www THEN ARRAY[${uuid('ms', "(substr(h, 58, 17) || '0')")}] ELSE '{}' END AS authorization_ids,
             at + interval '7 days' AS order_end, at + interval '30 days' AS authorization_end,
             date_trunc('second', at) - interval '1 hour' AS not_before,
             date_trunc('second', at) - interval '3601 seconds' +
               CASE WHEN site % 20 = 0 THEN interval '7 days' WHEN site % 20 < 4 THEN interval '45 days'
                    ELSE interval '90 days' END AS not_after,
             decode('4' || substr(h, 75, 33), 'hex') AS serial_number, sha256(convert_to(h, 'SQL_ASCII')) AS spki,
             12 * issuer + CASE WHEN with_www THEN 6 ELSE 0 END AS piece
        FROM dated
    ), authorizations_made AS (
      INSERT INTO authorizations (id, account_id, identifier_type, identifier_value, wildcard, status, expires_at, token, offered,
                                  attempts, evidence)
      SELECT i.id, account_id, 'dns', names[i.place], false,
             CASE WHEN outcome = 'failed' THEN 'invalid'
                  WHEN authorization_end <= today THEN 'expired'
                  WHEN outcome = 'abandoned' THEN 'pending' ELSE 'valid' END,
             authorization_end, ${base64url("sha256(convert_to(h || i.place, 'SQL_ASCII'))")}, '{http-01,dns-01,tls-alpn-01}',
             CASE outcome
               WHEN 'abandoned' THEN '{}'
               WHEN 'failed' THEN ('{"http-01": {"tries": 2, "status": "invalid", "error": ' || ${FAILURE} || '}}')::jsonb
               ELSE ('{"http-01": {"tries": 0, "status": "valid", "validated": "' || ${rfc3339('at')} || '"}}')::jsonb END,
             CASE WHEN outcome <> 'abandoned' THEN
               ('{"at": "' || ${rfc3339('at')} || '", "ms": 24, "type": "http-01", "attempt": 1, "result": "' ||
                CASE outcome WHEN 'failed' THEN 'failure' ELSE 'success' END ||
                '", "requestId": "' || md5(h)::uuid || '", "steps": [{"host": "' || names[i.place] ||
                '", "step": "resolved", "aliases": [], "resolver": "192.0.2.53", "addresses": ["192.0.2.1"]},' ||
                '{"port": 80, "step": "connected", "address": "192.0.2.1"},' ||
                '{"step": "response", "bytes": 87, "status": 200}, {"step": "finished", "durationMs": 19}]}')::jsonb END
        FROM g CROSS JOIN LATERAL unnest(authorization_ids) WITH ORDINALITY AS i (id, place)
    ), orders_made AS (
      INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at, error, certificate_id,
                          request_key)
      SELECT order_id, account_id,
             CASE WHEN outcome = 'issued' THEN 'valid'
                  WHEN outcome = 'refused' OR order_end <= today THEN 'invalid' ELSE 'open' END,
             CASE WHEN with_www
                  THEN '[{"type": "dns", "value": "' || name || '"}, {"type": "dns", "value": "www.' || name || '"}]'
                  ELSE '[{"type": "dns", "value": "' || name || '"}]' END::jsonb,
             authorization_ids, 'default', order_end, CASE outcome WHEN 'refused' THEN ${FAILURE}::jsonb END,
             CASE outcome WHEN 'issued' THEN certificate_id END, md5('request ' || n)::uuid
        FROM g
    ), certificates_made AS (
      INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                                issued_at, spki_sha256, revoked_at, revocation_reason)
      SELECT certificate_id, account_id, order_id, serial_number, ($9::bytea[])[1 + issuer], names, not_before, not_after,
             ($10::bytea[])[piece + 1] || serial_number || ($10::bytea[])[piece + 2] || ${utcTime('not_before')} ||
               ($10::bytea[])[piece + 3] || ${utcTime('not_after')} || ($10::bytea[])[piece + 4] ||
               convert_to(name, 'SQL_ASCII') || ($10::bytea[])[piece + 5] ||
               CASE WHEN with_www THEN convert_to(name, 'SQL_ASCII') || ($10::bytea[])[piece + 6] ELSE '' END,
             at + interval '300 milliseconds', spki,
             CASE WHEN n % 100 = 7 THEN date_trunc('second', at + (least(not_after, today) - at) * (n % 10007 / 10007.0)) END,
             CASE WHEN n % 100 = 7 THEN (ARRAY[0, 4, 4, 4, 5, 1])[1 + n / 100 % 6] END
        FROM g WHERE outcome = 'issued'
      RETURNING id, spki_sha256, issuer_fingerprint, revoked_at, revocation_reason
    ), blocked AS (
      INSERT INTO blocked_keys (spki_sha256, blocked_at, certificate_id)
      SELECT spki_sha256, revoked_at, id FROM certificates_made WHERE revocation_reason = 1
    ), counted AS (
      INSERT INTO crl_changes (issuer_fingerprint, slot, changes)
      SELECT issuer_fingerprint, 100 + pg_backend_pid() % 1000, count(*) FROM certificates_made WHERE revoked_at IS NOT NULL
       GROUP BY issuer_fingerprint
      ON CONFLICT (issuer_fingerprint, slot) DO UPDATE SET changes = crl_changes.changes + excluded.changes
    )
    INSERT INTO bench_load (kind, first) VALUES ('orders', $1)`,
}

/** Expiry has marked what was loaded as over; without this its first round would look at every row. */
export const SAVE_PROGRESS: Statement = {
  name: 'load-save-progress',
  text: `
    INSERT INTO cleanup_progress (task, after_id)
    SELECT task, (lpad(to_hex(greatest(0, $1::bigint - days::bigint * 86400000)), 12, '0') || '70008000000000000000')::uuid
      FROM (VALUES ('orders', 7), ('authorizations', 30)) AS t (task, days)
    ON CONFLICT (task) DO NOTHING`,
}

export const LOADED_TABLES = ['accounts', 'authorizations', 'orders', 'certificates'] as const

export const vacuum = (table: string): Statement => ({
  name: `load-vacuum-${table}`,
  text: `VACUUM (ANALYZE) ${table}`,
})

export const SIZES: Statement = {
  name: 'load-sizes',
  text: `
    SELECT t.relname AS table, t.reltuples::float8 AS rows, NULL AS index, pg_table_size(t.oid)::float8 AS bytes
      FROM pg_class t WHERE t.oid = ANY ($1::regclass[])
    UNION ALL
    SELECT t.relname, t.reltuples::float8, i.indexrelid::regclass::text, pg_relation_size(i.indexrelid)::float8
      FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid WHERE t.oid = ANY ($1::regclass[])
    ORDER BY 1, 3 NULLS FIRST`,
}

export const SAVE_ISSUER: Statement = {
  name: 'load-save-issuer',
  text: 'INSERT INTO issuers (fingerprint, certificate, chain) VALUES ($1, $2, ARRAY[$2::bytea]) ON CONFLICT DO NOTHING',
}

export const LARGE_ACCOUNT: Statement = {
  name: 'load-large-account',
  text: `SELECT ${accountId('0', '$1::bigint', '$2::bigint')} AS id`,
}

export const NEWEST_ISSUER: Statement = {
  name: 'load-newest-issuer',
  text: `
    SELECT certificate FROM issuers
     WHERE encode(fingerprint, 'hex') NOT IN (SELECT figures ->> 'fingerprint' FROM bench_load WHERE kind = 'issuer')
     ORDER BY created_at DESC LIMIT 1`,
}

/** The one a first call has made. */
export const FORMER_ISSUER: Statement = {
  name: 'load-former-issuer',
  text: `
    SELECT i.certificate FROM bench_load b JOIN issuers i ON i.fingerprint = decode(b.figures ->> 'fingerprint', 'hex')
     WHERE b.kind = 'issuer'`,
}

export const SAVE_FORMER_ISSUER: Statement = {
  name: 'load-save-former-issuer',
  text: "INSERT INTO bench_load (kind, first, figures) VALUES ('issuer', 0, jsonb_build_object('fingerprint', $1::text))",
}
