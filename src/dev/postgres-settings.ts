/**
 * Settings of the embedded PostgreSQL, with reasons. They are command-line options, so they also
 * apply to existing data.
 */

export type PostgresSettings = Readonly<Record<string, string | number>>

/** The settings of every embedded server; callers may override each by name. */
export const EMBEDDED_SETTINGS: PostgresSettings = {
  // A certificate that a client holds must survive a power cut. These are PostgreSQL's defaults,
  // listed here so that nobody removes them for an embedded server.
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',

  // Covers four services (20 connections each by default), a migration, psql and some reserve.
  max_connections: 100,

  // Twice PostgreSQL's default, enough for a few days of orders. Memory is allocated only when
  // touched.
  shared_buffers: '256MB',

  // Nothing replicates from this server, so the log omits the data of replicas.
  wal_level: 'minimal',
  max_wal_senders: 0,
  max_logical_replication_workers: 0,
  // Checkpoints come every 5 minutes, or after 0.5 GB of log (1 GB / 1.9), reached above 300
  // certificates/s. Full pages in the log keep recovery within seconds (START_TIMEOUT_MS in
  // postgres.ts).
  max_wal_size: '1GB',
  checkpoint_timeout: '5min',

  // Every statement is short, so parallel workers cost more than running it. They would also need /dev/shm, which is small in containers.
  max_parallel_workers_per_gather: 0,
  // PostgreSQL's default of 4 is meant for spinning disks.
  random_page_cost: 1.1,

  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
}

/** Renders `-c name=value` for each setting. */
export function renderSettings(settings: PostgresSettings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}
