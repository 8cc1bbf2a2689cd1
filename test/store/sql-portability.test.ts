/**
 * SQL that PostgreSQL-compatible distributed engines do not all have: where it stands, why, and what could take its place.
 *
 * A new place fails here. Write it portably, or add the file to its feature and read what docs/scaling.md says of it.
 */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

interface Feature {
  pattern: RegExp
  why: string
  substitute: string
  /** Files below `src` and `migrations`. */
  places: readonly string[]
}

const FEATURES: Readonly<Record<string, Feature>> = {
  'session advisory locks': {
    pattern: /pg_(try_)?advisory_(un)?lock\b/,
    why: 'which instances live and which leads is known as soon as a connection ends',
    substitute: 'lease rows that are renewed every second, and a fail-over that waits for their end',
    places: ['src/store/instance-presence.ts'],
  },
  'transaction advisory locks': {
    pattern: /pg_(try_)?advisory_xact_lock\b/,
    why: 'one taker of events, one nonce epoch, one history of certificates at a time',
    substitute: 'a row for each, locked FOR UPDATE',
    places: ['src/events/event-store.ts', 'src/store/issuance-guards.ts', 'src/store/nonce-store.ts'],
  },
  'locks and sessions of others': {
    pattern: /\bpg_locks\b|pg_blocking_pids|pg_terminate_backend|pg_backend_pid|pg_stat_(activity|progress)/,
    why: 'live instances in SQL, the end of a leader that hangs, poolers that share a session',
    substitute: 'lease rows; the counter of revocations has not used the process id since 0010',
    places: [
      'migrations/0004_crl.sql',
      'migrations/0007_operation.sql',
      'src/store/instance-presence.ts',
      'src/store/session.ts',
    ],
  },
  'unlogged tables': {
    pattern: /\bUNLOGGED\b/,
    why: 'nonces, rate limits and claims of equal orders are written at every request and may be lost',
    substitute: 'ordinary tables at the cost of their write-ahead log, or a cache beside the database',
    places: ['migrations/0002_orders.sql', 'migrations/0007_operation.sql'],
  },
  plpgsql: {
    pattern: /LANGUAGE plpgsql/,
    why: 'bodies of triggers, and what indexes have: the suffixes of a name, the hash of an account key; the type of a key',
    substitute: 'the same work in the statements that write; columns for the suffixes and the type',
    places: [
      'migrations/0003_certificates.sql',
      'migrations/0004_crl.sql',
      'migrations/0005_administration.sql',
      'migrations/0006_backends.sql',
      'migrations/0008_events.sql',
      'migrations/0010_crl_parts.sql',
      'migrations/0013_import.sql',
      'migrations/0027_account_keys.sql',
      'migrations/0029_compromised_keys.sql',
      'migrations/0037_key_types.sql',
    ],
  },
  triggers: {
    pattern: /CREATE TRIGGER/,
    why: 'events and counters that no statement can forget; an audit log that cannot be changed',
    substitute: 'the same work in the statements that write',
    places: [
      'migrations/0004_crl.sql',
      'migrations/0005_administration.sql',
      'migrations/0006_backends.sql',
      'migrations/0008_events.sql',
      'migrations/0029_compromised_keys.sql',
    ],
  },
  'transition tables': {
    pattern: /REFERENCING (NEW|OLD) TABLE/,
    why: 'a bulk revocation of thousands counts once',
    substitute: 'a trigger for each row, or the count in the statement that revokes',
    places: ['migrations/0004_crl.sql', 'migrations/0029_compromised_keys.sql'],
  },
  'SKIP LOCKED': {
    pattern: /SKIP LOCKED/,
    why: 'several instances take work from one table',
    substitute: 'FOR UPDATE by the one instance that leads; YugabyteDB and CockroachDB have it',
    places: [
      'src/admin/operation/dead-letter-endpoints.ts',
      'src/admin/revocations/bulk-revocation-store.ts',
      'src/admin/users/sessions.ts',
      'src/store/backend-revocation-store.ts',
      'src/store/challenge-store.ts',
      'src/store/csr-issuance-store.ts',
      'src/store/issuance-store.ts',
      'src/store/notification-store.ts',
      'src/store/rate-limit-store.ts',
      'src/store/renewal-store.ts',
    ],
  },
  'table locks': {
    pattern: /\bLOCK TABLE\b/,
    why: 'the last administrator, one new seal for all keys, the same incident begun twice, a trigger that changes',
    substitute: 'a row that is locked FOR UPDATE',
    places: [
      'migrations/0010_crl_parts.sql',
      'src/admin/eab/eab-reseal.ts',
      'src/admin/incidents/incident-store.ts',
      'src/store/user-store.ts',
    ],
  },
  'GIN indexes': {
    pattern: /USING gin/i,
    why: 'certificates by name and below a name, orders by identifier, accounts by contact and tag, failures by name',
    substitute: 'a table with a row for each name; YugabyteDB and CockroachDB have inverted indexes',
    places: [
      'migrations/0003_certificates.sql',
      'migrations/0016_roles_checked.sql',
      'migrations/0022_failure_names_index.sql',
      'src/store/optional-indexes.ts',
    ],
  },
  sequences: {
    pattern: /CREATE SEQUENCE|\bnextval\(|GENERATED (ALWAYS|BY DEFAULT) AS IDENTITY/,
    why: 'ranges of serial numbers and of nonces, the order of events',
    substitute:
      'they are there everywhere; in a cluster a number costs a round trip, and the order of events is no longer that of commits',
    places: [
      'migrations/0003_certificates.sql',
      'migrations/0007_operation.sql',
      'migrations/0008_events.sql',
      'src/store/issuance-store.ts',
      'src/store/nonce-store.ts',
    ],
  },
  xmin: {
    pattern: /\bxmin\b/,
    why: 'a CSR profile that was replaced, and a compromised key that got another certificate, meanwhile',
    substitute: 'a column with a version',
    places: ['src/store/account-rules-store.ts', 'src/store/compromised-key-store.ts', 'src/store/issuance-guards.ts'],
  },
  'messages in the log': {
    pattern: /pg_logical_emit_message/,
    why: 'a probe that commits to disk and to the replicas, and writes no row',
    substitute: 'an UPDATE of one row',
    places: ['src/store/database.ts'],
  },
  'settings of the planner': {
    pattern: /enable_(seqscan|sort|bitmapscan|hashjoin|mergejoin|nestloop)|plan_cache_mode/,
    why: 'plans that hold while a table grows from nothing',
    substitute: 'hints of the engine; most ignore or refuse the settings',
    places: [
      'migrations/0029_compromised_keys.sql',
      'src/admin/revocations/bulk-revocation-store.ts',
      'src/store/database.ts',
      'src/events/event-store.ts',
      'src/store/expiration-store.ts',
    ],
  },
  'statistics of tables': {
    pattern: /\breltuples\b|pg_(total_)?relation_size|pg_table_size|pg_indexes_size/,
    why: 'how large a sample is, and how long an index takes',
    substitute: 'the estimate of the engine',
    places: ['src/admin/certificates/certificate-filter.ts', 'src/store/optional-indexes.ts'],
  },
  'builds of indexes beside writers': {
    pattern: /INDEX CONCURRENTLY/,
    why: 'nobody waits for a migration',
    substitute: 'nothing: they build all indexes so',
    places: [
      'migrations/0012_crl_octets.sql',
      'migrations/0016_roles_checked.sql',
      'migrations/0022_failure_names_index.sql',
      'migrations/0026_failed_orders_index.sql',
      'migrations/0028_account_keys_index.sql',
      'src/store/optional-indexes.ts',
    ],
  },
  'state of the server': {
    pattern: /pg_is_in_recovery|transaction_read_only|synchronous_commit/,
    why: 'a standby is told from the primary, and a commit is on disk',
    substitute: 'nothing: every node writes',
    places: ['src/dev/postgres-cluster.ts', 'src/store/session.ts', 'src/store/signer-mark-store.ts'],
  },
  'BRIN indexes': {
    pattern: /USING brin/i,
    why: 'dropped by 0012',
    substitute: 'an ordinary index on the time',
    places: ['migrations/0007_operation.sql'],
  },
  'places of rows': {
    pattern: /\bctid\b|'tid'|::tid\b/,
    why: 'none',
    substitute: 'the primary key',
    places: [],
  },
  'samples of blocks': {
    pattern: /\bTABLESAMPLE\b/,
    why: 'none',
    substitute: 'a range of fingerprints (certificate-filter.ts)',
    places: [],
  },
  notifications: {
    pattern: /\b(LISTEN|NOTIFY) [a-z_]+|pg_notify/,
    why: 'none: instances look once a second',
    substitute: 'none needed',
    places: [],
  },
}

const ROOT = new URL('../../../', import.meta.url)
const COMMENTS = { '.ts': /^\s*(?:\/\/|\*|\/\*).*$/gm, '.sql': /--.*$/gm }

/** Migrator and doctor look at locks, sessions and settings of this very server: another engine would need others. */
const OF_THE_SERVER = ['src/store/schema/', 'src/doctor/']

const texts = ['src', 'migrations'].flatMap((folder) =>
  readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' }).flatMap((name) => {
    const file = `${folder}/${name}`
    const comments = file.endsWith('.ts') ? COMMENTS['.ts'] : file.endsWith('.sql') ? COMMENTS['.sql'] : undefined
    return comments && !OF_THE_SERVER.some((place) => file.startsWith(place))
      ? [{ file, text: readFileSync(new URL(file, ROOT), 'utf8').replace(comments, '') }]
      : []
  }),
)

for (const [feature, { pattern, places, why, substitute }] of Object.entries(FEATURES))
  test(`${feature} stand where the list says`, () => {
    const found = texts.flatMap(({ file, text }) => (pattern.test(text) ? [file] : []))
    assert.deepEqual(found.toSorted(), places.toSorted(), `why: ${why}; in their place: ${substitute}`)
  })
