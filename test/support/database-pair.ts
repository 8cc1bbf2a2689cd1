/** Two PostgreSQL servers: a primary, and a hot standby that follows it by streaming replication. */

import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { until } from './until.ts'

export interface DatabasePair {
  primary: EmbeddedPostgres
  standby: EmbeddedPostgres
  /** For `database.host`, the standby first: who takes the first that answers is wrong. */
  hosts: string[]
  /** Waits until the standby has all that was committed, and stops its replication there; `isBackup` stops all of it. */
  freeze(isBackup?: boolean): Promise<void>
  /** Makes the standby, or the backup, a primary. The former one has to be stopped before. */
  promote(): Promise<void>
  /** Ends the primary at once, as a loss of its machine does. */
  killPrimary(): Promise<void>
  /** Opens what the former primary had, in a server that nobody else knows: at its place the service would find it. */
  openFormer(): Promise<EmbeddedPostgres>
  stop(): Promise<void>
}

export async function startDatabasePair(): Promise<DatabasePair> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-pair-'))
  // The servers have a user of their own where the tests run as root.
  chmodSync(folder, 0o755)
  const hba = path.join(folder, 'pg_hba.conf')
  writeFileSync(hba, 'local all all trust\nlocal replication all trust\n')
  const start = (name: string) =>
    startEmbeddedPostgres({
      dataDir: path.join(folder, name),
      settings: { fsync: 'off', hba_file: hba, wal_level: 'replica', max_wal_senders: 4 },
      log: () => undefined,
    })

  const empty = await start('primary')
  await empty.stop()
  copyCluster(empty.folder, path.join(folder, 'standby'))
  const primary = await start('primary')
  writeConnection(path.join(folder, 'standby', 'cluster'), primary)
  let standby = await start('standby')
  let isStopped = false
  let former: EmbeddedPostgres | undefined
  const isFollowing = async () => (await asSuperuser(primary, 'SELECT 1 FROM pg_stat_replication')).length > 0
  await until('the standby follows', isFollowing)

  return {
    primary,
    standby,
    hosts: [standby.connection.host, primary.connection.host],
    async freeze(isBackup) {
      const lsn = await asSuperuser(primary, 'SELECT pg_current_wal_flush_lsn()::text AS lsn')
      const { lsn: wanted } = lsn[0] as { lsn: string }
      const hasAll = async () => {
        const rows = await asSuperuser(standby, `SELECT pg_last_wal_replay_lsn() >= '${wanted}' AS has`)
        return (rows[0] as { has: boolean }).has
      }
      await until('the standby has all', hasAll)
      await asSuperuser(standby, "ALTER SYSTEM SET primary_conninfo = ''")
      await asSuperuser(standby, 'SELECT pg_reload_conf()')
      const isAlone = async () => (await asSuperuser(primary, 'SELECT 1 FROM pg_stat_replication')).length === 0
      await until('the standby does not follow any more', isAlone)
      if (isBackup) await standby.stop()
      isStopped = isBackup === true
    },
    async killPrimary() {
      process.kill(-primary.pid, 'SIGKILL')
      await primary.exited
    },
    async openFormer() {
      copyCluster(primary.folder, path.join(folder, 'former'))
      rmSync(path.join(folder, 'former', 'cluster', 'postmaster.pid'), { force: true })
      former = await start('former')
      return former
    },
    async promote() {
      if (isStopped) standby = await start('standby')
      await asSuperuser(standby, 'SELECT pg_promote()')
    },
    async stop() {
      await standby.stop()
      await former?.stop()
      await primary.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Moves every time of the database back, as if its rows had been made that long ago. Left are what signatures cover: the
 * validity of certificates and the audit log; and the times in ids.
 */
export async function makeOlder({ connection }: EmbeddedPostgres, interval: string): Promise<void> {
  const client = new pg.Client({ ...connection, user: 'postgres' })
  await client.connect()
  try {
    await client.query(`
      DO $$ DECLARE one record; BEGIN
        SET LOCAL session_replication_role = replica;
        FOR one IN
          SELECT table_name, string_agg(format('%1$I = %1$I - interval ''${interval}''', column_name), ', ') AS changes
            FROM information_schema.columns JOIN information_schema.tables t USING (table_schema, table_name)
           WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND data_type = 'timestamp with time zone'
             AND column_name NOT IN ('not_before', 'not_after') AND table_name <> 'admin_audit_log'
           GROUP BY table_name
        LOOP EXECUTE format('UPDATE %I SET %s', one.table_name, one.changes); END LOOP;
      END $$`)
  } finally {
    await client.end()
  }
}

/** Copies by `cp`, which keeps the owner as root. */
function copyCluster(from: string, to: string): void {
  mkdirSync(to, { mode: 0o755 })
  execFileSync('cp', ['-a', path.join(from, 'cluster'), to])
}

function writeConnection(cluster: string, { connection: { host, port } }: EmbeddedPostgres): void {
  const { uid, gid } = statSync(cluster)
  const content = {
    'standby.signal': '',
    'postgresql.auto.conf': `primary_conninfo = 'host=${host} port=${port} user=postgres'\n`,
  }
  for (const [name, text] of Object.entries(content)) {
    writeFileSync(path.join(cluster, name), text, { mode: 0o600 })
    chownSync(path.join(cluster, name), uid, gid)
  }
}

export async function asSuperuser(
  { connection: { host, port } }: EmbeddedPostgres,
  ...texts: string[]
): Promise<unknown[]> {
  const client = new pg.Client({ host, port, user: 'postgres', database: 'postgres' })
  await client.connect()
  try {
    let rows: unknown[] = []
    for (const text of texts) rows = (await client.query(text)).rows
    return rows
  } finally {
    await client.end()
  }
}
