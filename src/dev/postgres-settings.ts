/** Settings of the embedded PostgreSQL and the reasons for them; given on the command line, so they hold for old data too. */

export type PostgresSettings = Readonly<Record<string, string | number>>

/** What every embedded server gets; callers may override any of it by name. */
export const EMBEDDED_SETTINGS: PostgresSettings = {
  // A certificate that a client holds must still be in the database after a power cut. These are PostgreSQL's own
  // defaults; they stand here so that nobody takes the embedded server for a toy that drops them.
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',

  // One service with two pools (50 by default), its listener, a migration, a psql and some room.
  max_connections: 100,

  // Twice PostgreSQL's default holds orders and authorizations of a few days; memory is taken only as it is touched.
  shared_buffers: '256MB',

  // Nothing replicates from this server, so the log need not carry what a replica would want.
  wal_level: 'minimal',
  max_wal_senders: 0,
  max_logical_replication_workers: 0,
  // At most half a gigabyte (by 1.9) between two checkpoints: by time on ordinary days, by volume above some 300
  // certificates a second, every two to three and a half minutes at 600. Full pages in the log are the price of a recovery that
  // stays within seconds (START_TIMEOUT_MS of postgres.ts) and of a log that leaves the disk to others.
  max_wal_size: '1GB',
  checkpoint_timeout: '5min',

  // Every statement is short and reads few rows: compiling or parallelising one costs more than running it, and
  // parallel workers would need /dev/shm, of which containers have little.
  jit: 'off',
  max_parallel_workers_per_gather: 0,
  // The planner's default of 4 is for spinning disks.
  random_page_cost: 1.1,

  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
}

/** `-c name=value` for each setting. */
export function renderSettings(settings: PostgresSettings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}
