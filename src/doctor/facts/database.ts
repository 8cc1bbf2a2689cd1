/** The database, for reading only: what the doctor reads of PostgreSQL and of the tables, each by one statement. */

import type { Config } from '../../config/schema.ts'
import type { RaisedAlarm } from '../../domain/alarms.ts'
import type { AuditEntry } from '../../domain/audit-chain.ts'
import { OPEN_OUTCOMES } from '../../domain/decision.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { RAISED_ALARMS } from '../../store/event-statistics-store.ts'
import { type DatabaseSettings, openPrimary } from '../../store/session.ts'
import { CannotTell } from '../verdict.ts'

const CONNECT_MS = 5_000
const STATEMENT_MS = 15_000

/** A report that comes later is of no use to its reader. */
export function settingsFor(config: Config) {
  const settings = databaseSettings(config, 1)
  const connectionTimeoutMs = Math.min(settings.connectionTimeoutMs || CONNECT_MS, CONNECT_MS)
  return { ...settings, connectionTimeoutMs, statementTimeoutMs: STATEMENT_MS }
}

/** @throws CannotTell */
export async function openDatabaseFor(config: Config): Promise<Diagnosis> {
  try {
    return await openDiagnosis(settingsFor(config))
  } catch (error) {
    throw new CannotTell(`the database is not reachable: ${messageOf(error)}`)
  }
}

export interface DiagnosisRows {
  server: { version: number; bytes: string; connections: number; allowed: number; reserved: number; age: number }
  clock: { now: Date }
  settings: { name: string; value: string }[]
  replicas: { name: string; state: string | null; sync: string | null; lagBytes: number | null }[]
  slots: { name: string; keptBytes: number | null }[]
  bloated: { name: string; dead: string }[]
  transactions: { pid: number; application: string; seconds: number }[]
  indexes: { name: string }[]
  closedTables: { name: string }[]
  instances: { id: number }[]
  intents: { count: number; oldestSeconds: number }
  csrIssuances: { count: number; failures: number }
  deliveries: { deadLetters: number; failedMails: number }
  alarms: RaisedAlarm[]
  mail: { since: Date; error: string }[]
  marks: { behindSince: Date | null; lostDecisions: number }
  crls: {
    issuerId: string
    shards: number
    shard: number
    number: string
    thisUpdate: Date
    nextUpdate: Date
    bytes: string
  }[]
  newestCertificate: { der: Buffer; issuer: Buffer }[]
  credentials: { kid: string; label: string | null; expiresAt: Date }[]
  tokens: { name: string; expiresAt: Date }[]
  /** The newest first, each with the head and the cut of the log; one with `id` null of a log without entries. */
  auditEntries: (Omit<AuditEntry, 'id'> & {
    id: string | null
    mac: Buffer
    head: number
    headMac: Buffer
    cut: number
    cutMac: Buffer
    cutSeal: Buffer | null
  })[]
  administrators: { enabled: number; lastLoginAt: Date | null }
}
export type DiagnosisName = keyof DiagnosisRows

/** How many entries are judged. One more is read: the first is compared with the one before it. */
export const AUDIT_ENTRIES = 5000

/** Each statement on a table that can grow reads along an index or up to a bound. */
const STATEMENTS: Readonly<Record<DiagnosisName, string>> = {
  server: `
    SELECT current_setting('server_version_num')::integer AS version,
           pg_database_size(current_database())::text AS bytes,
           (SELECT count(*)::integer FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
           current_setting('max_connections')::integer AS allowed,
           current_setting('superuser_reserved_connections')::integer AS reserved,
           (SELECT age(datfrozenxid)::integer FROM pg_database WHERE datname = current_database()) AS age`,
  clock: 'SELECT clock_timestamp() AS now',
  settings: `
    SELECT name, reset_val AS value FROM pg_settings
     WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'autovacuum', 'jit',
                    'data_directory')`,
  replicas: `
    SELECT coalesce(application_name, '') AS name, state, sync_state AS sync,
           pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::double precision AS "lagBytes"
      FROM pg_stat_replication ORDER BY 1 LIMIT 50`,
  slots: `
    SELECT slot_name AS name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::double precision AS "keptBytes"
      FROM pg_replication_slots WHERE NOT active ORDER BY 1 LIMIT 50`,
  bloated: `
    SELECT relname AS name, n_dead_tup::text AS dead FROM pg_stat_user_tables
     WHERE schemaname = current_schema() AND n_dead_tup > 1000000 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC LIMIT 5`,
  transactions: `
    SELECT pid, coalesce(application_name, '') AS application, extract(epoch FROM now() - xact_start)::integer AS seconds
      FROM pg_stat_activity
     WHERE datname = current_database() AND xact_start < now() - interval '15 minutes' ORDER BY xact_start LIMIT 5`,
  indexes: `
    SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid ORDER BY 1 LIMIT 20`,
  closedTables: `
    SELECT relname AS name FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
       AND NOT has_table_privilege(oid, 'SELECT') ORDER BY 1 LIMIT 20`,
  instances: 'SELECT id FROM live_instances() AS id ORDER BY id LIMIT 1000',
  intents: `
    SELECT count(*)::integer AS count,
           greatest(0, coalesce(extract(epoch FROM now() - min(created_at)), 0))::integer AS "oldestSeconds"
      FROM (SELECT created_at FROM issuance_intents ORDER BY created_at LIMIT 10000) i`,
  csrIssuances: `
    SELECT count(*)::integer AS count, coalesce(max(failures), 0)::integer AS failures
      FROM (SELECT failures FROM csr_issuances LIMIT 10000) i`,
  deliveries: `
    SELECT (SELECT count(*)::integer FROM (SELECT FROM event_dead_letters LIMIT 10000) d) AS "deadLetters",
           (SELECT count(*)::integer FROM (
             SELECT FROM notifications WHERE status = 'failed' LIMIT 10000) n) AS "failedMails"`,
  alarms: RAISED_ALARMS,
  mail: `SELECT failing_since AS since, coalesce(error, '') AS error FROM mail_attempts WHERE failing_since IS NOT NULL`,
  marks: `
    SELECT (SELECT min(behind_since) FROM signer_marks) AS "behindSince",
           (SELECT count(*)::integer FROM lost_decisions
             WHERE outcome IN ('${OPEN_OUTCOMES.join("', '")}') AND accepted_at IS NULL) AS "lostDecisions"`,
  crls: `
    SELECT issuer_id AS "issuerId", shards, shard, number::text, this_update AS "thisUpdate", next_update AS "nextUpdate",
           bytes::text FROM crls ORDER BY issuer_id, shards, shard LIMIT 2000`,
  newestCertificate: `
    SELECT c.der, i.certificate AS issuer
      FROM (SELECT der, issuer_fingerprint FROM certificates ORDER BY id DESC LIMIT 100) c
      JOIN issuers i ON i.fingerprint = c.issuer_fingerprint WHERE length(c.der) > 0 LIMIT 1`,
  credentials: `
    SELECT kid, label, expires_at AS "expiresAt" FROM eab_credentials
     WHERE NOT revoked AND NOT used AND expires_at BETWEEN now() AND now() + interval '14 days'
     ORDER BY expires_at LIMIT 20`,
  tokens: `
    SELECT name, expires_at AS "expiresAt" FROM admin_api_tokens
     WHERE revoked_at IS NULL AND expires_at < now() + interval '14 days' AND expires_at > now() - interval '30 days'
     ORDER BY expires_at LIMIT 20`,
  auditEntries: `
    SELECT h.sequence::double precision AS head, h.mac AS "headMac", h.cut_sequence::double precision AS cut,
           h.cut_mac AS "cutMac", h.cut_seal AS "cutSeal", l.sequence::double precision AS sequence, l.id,
           l.user_id AS "userId", l.action, l.target_user_id AS "targetUserId", l.details, l.ip_address AS "ipAddress",
           l.created_at AS "createdAt", l.mac
      FROM admin_audit_head h
      LEFT JOIN LATERAL (SELECT * FROM admin_audit_log ORDER BY sequence DESC LIMIT ${AUDIT_ENTRIES + 1}) l ON true`,
  administrators: `
    SELECT count(*) FILTER (WHERE enabled AND role = 'admin')::integer AS enabled,
           max(last_login_at) FILTER (WHERE enabled AND role = 'admin') AS "lastLoginAt" FROM admin_users`,
}

/** Their result is one row. The others give a list. */
const SINGLE: ReadonlySet<DiagnosisName> = new Set([
  'server',
  'clock',
  'intents',
  'csrIssuances',
  'deliveries',
  'marks',
  'administrators',
])

export interface Diagnosis {
  host: string
  /** @throws the database's error, as for a table that is missing */
  read<N extends DiagnosisName>(name: N): Promise<DiagnosisRows[N]>
  query<Row>(statement: { text: string }, values: readonly unknown[]): Promise<Row[]>
  close(): Promise<void>
}

/**
 * Each statement is a transaction that can write nothing. A setting of the session would do, but stay behind where a pooler
 * gives that session to the service.
 * @throws as `openSession`
 */
async function openDiagnosis(settings: DatabaseSettings): Promise<Diagnosis> {
  const { client, host } = await openPrimary(settings)
  const transaction = async (text: string, values: readonly unknown[]) => {
    await client.query('BEGIN READ ONLY')
    try {
      return (await client.query(text, [...values])).rows
    } finally {
      await client.query('COMMIT')
    }
  }
  let last: Promise<unknown> = Promise.resolve()
  /** One after the other: they share a connection. */
  const inTransaction = (text: string, values: readonly unknown[]) => {
    const next = last.then(() => transaction(text, values))
    last = next.catch(() => undefined)
    return next
  }
  return {
    host,
    async read<N extends DiagnosisName>(name: N) {
      const rows = await inTransaction(STATEMENTS[name], [])
      return (SINGLE.has(name) ? rows[0] : rows) as DiagnosisRows[N]
    },
    query: async <Row>({ text }: { text: string }, values: readonly unknown[]) =>
      (await inTransaction(text, values)) as Row[],
    close: () => client.end(),
  }
}
