/**
 * A database as 400 days of issuance leave it: accounts, orders, certificates of three issuers, failures, mails, an audit log.
 *
 * A tenth of the certificates is one account's, a hundredth is revoked, four in five have expired. The audit log has entries of
 * the right size and no valid chain.
 */

import pg from 'pg'
import type { DatabaseConnection } from './postgres.ts'

const CHUNK = 100_000
const CERTIFICATES_AN_ACCOUNT = 100
const MOST_AUDIT_ENTRIES = 100_000
/** The size of a certificate with an ECDSA key, but for the digest before it. */
const DER_BYTES = 600

/** Indexes but the primary keys, whose rows come in order: made again when all rows are there, which takes a third of the time. */
const SECONDARY = `
  SELECT c.conname IS NOT NULL AS is_constraint, i.indexrelid::regclass::text AS name, i.indrelid::regclass::text AS of,
         coalesce(pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid)) AS definition
    FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
   WHERE i.indrelid IN ('certificates'::regclass, 'orders'::regclass) AND NOT i.indisprimary`
/** Not part of an index's definition. */
const NO_STATISTICS = 'ALTER INDEX certificates_fingerprint ALTER COLUMN 1 SET STATISTICS 0'

interface SecondaryIndex {
  is_constraint: boolean
  name: string
  of: string
  definition: string
}

const dropping = ({ is_constraint, name, of }: SecondaryIndex) =>
  is_constraint ? `ALTER TABLE ${of} DROP CONSTRAINT ${name}` : `DROP INDEX ${name}`
const making = ({ is_constraint, name, of, definition }: SecondaryIndex) =>
  is_constraint ? `ALTER TABLE ${of} ADD CONSTRAINT ${name} ${definition}` : definition

/** Keys in the order of their time, as the application makes them (version 7); written out, as a function would cost more. */
const keyOf = (milliseconds: string, digest: string, first: number) =>
  `(${milliseconds} || '7' || substr(${digest}, ${first}, 3) || '8' || substr(${digest}, ${first + 3}, 15))::uuid`
const millisecondsOf = (at: string) => `lpad(to_hex((extract(epoch FROM ${at}) * 1000)::bigint), 12, '0')`
const accountKey = (n: string) => `('01800000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`

const ACCOUNTS = `
  INSERT INTO accounts (id, thumbprint, jwk, contacts, created_at, tags)
  SELECT ${accountKey('n')}, 'load ' || n, '{}', ARRAY['mailto:ops' || n || '@load.example'], '2024-01-01Z',
         CASE WHEN n = 0 THEN '{large}' WHEN n % 1000 = 2 THEN '{team}' ELSE '{}' END::text[]
    FROM generate_series(0, $1::bigint) n`

const ISSUERS = `
  INSERT INTO issuers (fingerprint, certificate, chain)
  SELECT sha256(name::bytea), name::bytea, '{}' FROM unnest(ARRAY['retired', 'first', 'second']) AS name`

const ROWS = `
  WITH numbered AS (
    SELECT n, $3::timestamptz - (1 - n / $2::float8) * interval '400 days' AS at, md5(n::text) AS digest,
           CASE WHEN n % 10 = 0 THEN 0 ELSE 1 + n % greatest($2::float8::bigint / ${CERTIFICATES_AN_ACCOUNT}, 1) END AS account,
           'host' || n % greatest($2::float8::bigint / 4, 1) || '.load.example' AS name
      FROM generate_series($1::bigint, least($1::bigint + ${CHUNK - 1}, $2::float8::bigint)) n
  ), made AS MATERIALIZED (
    SELECT n, at, digest, name, ${accountKey('account')} AS account_id,
           ${keyOf(millisecondsOf('at'), 'digest', 1)} AS id,
           ${keyOf(millisecondsOf("at - interval '2 seconds'"), 'digest', 10)} AS order_id
      FROM numbered
  ), ordered AS (
    INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at, certificate_id)
    SELECT order_id, account_id, 'valid', ('[{"type": "dns", "value": "' || name || '"}]')::jsonb, ARRAY[order_id],
           CASE WHEN n % 7 = 0 THEN 'short' ELSE 'default' END, at + interval '7 days', id
      FROM made
  )
  INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                            issued_at, revoked_at, revocation_reason)
  SELECT id, account_id, order_id, decode('10' || digest, 'hex'),
         CASE WHEN n < $2::float8 / 20 THEN sha256('retired') WHEN n % 2 = 0 THEN sha256('first') ELSE sha256('second') END,
         ARRAY[name], at, at + interval '90 days', decode(digest, 'hex') || $4::bytea, at,
         CASE WHEN n % 100 = 0 THEN at + interval '1 day' END, CASE WHEN n % 100 = 0 THEN 4 END
    FROM made`

/** Orders that no certificate came of, spread over the same time. */
const FAILED_ORDERS = `
  INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at, error)
  SELECT ${keyOf(millisecondsOf("$2::timestamptz - (n::float8 / $1::bigint) * interval '400 days'"), 'md5(n::text)', 13)},
         ${accountKey('n % $1::bigint')}, 'invalid',
         ('[{"type": "dns", "value": "failed' || n || '.load.example"}]')::jsonb, '{}', 'default', $2::timestamptz,
         '{"type": "urn:ietf:params:acme:error:unauthorized", "detail": "it failed"}'
    FROM generate_series(1, $1::bigint) n`

/** Each of these accounts keeps as many as there may be. */
const FAILURES = `
  INSERT INTO account_failures (account_id, event_id, kind, occurred_at, data)
  SELECT ${accountKey('a * 50')}, gen_random_uuid(), 'challenge.on_failure',
         $2::timestamptz - (a * 50 + n) * interval '25 seconds',
         jsonb_build_object('identifier_type', 'dns', 'identifier_value', 'failed' || n || '.load.example',
                            'problem', 'urn:ietf:params:acme:error:' || (ARRAY['connection', 'dns', 'unauthorized'])[n % 3 + 1],
                            'error', 'it failed for reason ' || n % 20)
    FROM generate_series(0, $1::bigint / 50) a, generate_series(1, 50) n`

const NOTIFICATIONS = `
  INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, error_detail, account_id,
                             created_at, message_id)
  SELECT ${keyOf(millisecondsOf("$2::timestamptz - n * interval '20 seconds'"), 'md5(n::text)', 13)}, 'expiration_warning',
         'ops' || n || '@load.example', 'Certificates expire soon', repeat('x', 300), repeat('x', 600),
         CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'sent' END, CASE WHEN n % 10 = 0 THEN '550 no mailbox ' || n % 7 END,
         ${accountKey('n % $1::bigint')}, $2::timestamptz - n * interval '20 seconds', 'm' || n
    FROM generate_series(1, $1::bigint) n`

const DEAD_LETTERS = `
  INSERT INTO event_dead_letters (consumer, event_id, kind, subject, account_id, occurred_at, data, attempts, error, failed_at)
  SELECT 'webhook', gen_random_uuid(), 'certificate.issuance', 'load', ${accountKey('n % $1::bigint')}, $2, '{}', 10,
         'the server answered ' || 500 + n % 4, $2::timestamptz - n * interval '1 minute'
    FROM generate_series(1, $1::bigint / 5) n`

/** Deletes as much as the clean-up would have deleted. */
const CLEANED = `
  INSERT INTO cleanup_progress (task, after_id)
  SELECT task, ${keyOf(millisecondsOf('$1::timestamptz'), 'md5(task)', 1)} FROM unnest(ARRAY['orders', 'authorizations']) AS task
  ON CONFLICT (task) DO UPDATE SET after_id = EXCLUDED.after_id`

const AUDIT = `
  INSERT INTO admin_audit_log (sequence, id, action, details, ip_address, created_at, mac)
  SELECT (SELECT sequence FROM admin_audit_head) + n, gen_random_uuid(), 'certificate.revoke',
         jsonb_build_object('serial_number', md5(n::text), 'reason', 'superseded'), '192.0.2.1',
         $2::timestamptz - ($1::bigint - n) * interval '1 minute', sha256(n::text::bytea)
    FROM generate_series(1, $1::bigint) n`

/** @param say is told how far it is */
export async function fillWithCertificates(
  connection: DatabaseConnection,
  certificates: number,
  say: (sentence: string) => void,
): Promise<void> {
  const client = new pg.Client(connection)
  await client.connect()
  const startedAt = performance.now()
  const seconds = () => `${((performance.now() - startedAt) / 1000).toFixed(0)} s`
  const now = new Date()
  try {
    await client.query("SET synchronous_commit = off; SET maintenance_work_mem = '512MB'")
    const indexes = (await client.query<SecondaryIndex>(SECONDARY)).rows
    for (const index of indexes) await client.query(dropping(index))
    await client.query(ISSUERS)
    const accounts = Math.ceil(certificates / CERTIFICATES_AN_ACCOUNT)
    await client.query(ACCOUNTS, [accounts])
    for (let from = 1; from <= certificates; from += CHUNK) {
      await client.query(ROWS, [from, certificates, now, Buffer.alloc(DER_BYTES, 0x5a)])
      const made = Math.min(from + CHUNK - 1, certificates)
      if (made % (10 * CHUNK) === 0 || made === certificates)
        say(`${made.toLocaleString('en')} certificates after ${seconds()}`)
    }
    for (const text of [FAILED_ORDERS, FAILURES, NOTIFICATIONS, DEAD_LETTERS]) await client.query(text, [accounts, now])
    await client.query(CLEANED, [now])
    const entries = Math.min(MOST_AUDIT_ENTRIES, Math.ceil(certificates / 10))
    await client.query(AUDIT, [entries, now])
    await client.query('UPDATE admin_audit_head SET sequence = sequence + $1', [entries])
    for (const index of indexes) await client.query(making(index))
    await client.query(NO_STATISTICS)
    await client.query('VACUUM (ANALYZE) certificates')
    await client.query('VACUUM (ANALYZE) orders')
    await client.query('ANALYZE')
    say(`filled after ${seconds()}`)
  } finally {
    await client.end()
  }
}
