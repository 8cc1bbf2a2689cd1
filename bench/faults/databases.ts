/** PostgreSQL of the stand: a primary and a replica by streaming replication, which change places on a promotion. */

import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import { type PostgresBinaries, requirePostgresBinaries } from '../../src/dev/postgres-binaries.ts'
import { prepareCluster, renderSettings } from '../../src/dev/postgres-cluster.ts'
import { giveTo, type PostgresAccount, requirePostgresAccount } from '../../src/dev/postgres-place.ts'
import { freePort } from '../servers/child.ts'
import type { ServerKey } from './certificates.ts'
import { Part } from './part.ts'
import { until } from './waiting.ts'

const DATABASE = 'chancery'
const ACCESS = `local all all trust
host replication postgres 127.0.0.1/32 trust
hostssl ${DATABASE} ${DATABASE} 127.0.0.1/32 trust
`
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  max_connections: 200,
  wal_level: 'replica',
  max_wal_senders: 8,
  // Not to a disk: the stand kills processes, never the machine.
  fsync: 'off',
  synchronous_commit: 'on',
  wal_sender_timeout: '5s',
  wal_receiver_timeout: '5s',
  wal_receiver_status_interval: '1s',
  max_wal_size: '256MB',
  ssl: 'on',
  timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
}

export interface DatabaseNode {
  part: Part
  /** The disk holds the data, and nothing else. */
  folder: string
  port: number
  /** Socket folder and port, for the superuser; past every link. */
  local: { host: string; port: number }
}

export interface DatabaseOptions {
  /** One for each node, made before: they may be disks of their own. */
  folders: readonly [string, string]
  key: ServerKey
  /** Where replication finds the primary: a link that the stand sets to each node in turn. */
  replication: { host: (node: number) => string; port: number }
  env: Readonly<Record<string, string>>
}

export class Databases {
  readonly nodes: readonly [DatabaseNode, DatabaseNode]
  #primary: 0 | 1 = 0
  readonly #options: DatabaseOptions
  readonly #account: PostgresAccount
  readonly #making: Making

  private constructor(making: Making, nodes: [DatabaseNode, DatabaseNode]) {
    this.#options = making.options
    this.#account = making.account
    this.#making = making
    this.nodes = nodes
  }

  static async start(options: DatabaseOptions): Promise<Databases> {
    const account = requirePostgresAccount(path.join(options.folders[0], 'cluster'), () => undefined)
    const binaries = requirePostgresBinaries(account, '/var/lib/chancery', () => undefined)
    const making = { account, binaries, options }
    const make = async (folder: string) => makeNode(folder, await freePort(), making)
    const nodes: [DatabaseNode, DatabaseNode] = [await make(options.folders[0]), await make(options.folders[1])]
    const databases = new Databases(making, nodes)
    prepareCluster({ account, folder: nodes[0].folder, cluster: clusterOf(nodes[0]) }, binaries, false)
    databases.writeCertificate()
    nodes[0].part.start()
    await nodes[0].part.untilReady()
    return databases
  }

  get primary(): DatabaseNode {
    return this.nodes[this.#primary]
  }

  get replica(): DatabaseNode {
    return this.nodes[1 - this.#primary]!
  }

  /** Asks the database of the service as superuser: the primary, unless a node is named. */
  async ask<R extends pg.QueryResultRow>(text: string, values: unknown[] = [], node = this.primary): Promise<R[]> {
    const client = new pg.Client({ ...node.local, user: 'postgres', database: DATABASE })
    // A server that is killed meanwhile: the query rejects as well.
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<R>(text, values)).rows
    } finally {
      await client.end()
    }
  }

  /** Copies the primary, as a base backup does, and lets the copy follow it. */
  async rebuildReplica(): Promise<void> {
    const { primary, replica } = this
    await replica.part.stop()
    const to = clusterOf(replica)
    rmSync(to, { recursive: true, force: true })
    mkdirSync(to, { mode: 0o700 })
    giveTo(this.#account, to)
    await this.#copy(primary, to)
    const { replication } = this.#options
    const conninfo = `host=${replication.host(this.nodes.indexOf(primary))} port=${replication.port} user=postgres sslmode=disable`
    this.#write(to, 'standby.signal', '')
    this.#write(to, 'postgresql.auto.conf', `primary_conninfo = '${conninfo}'\n`)
    replica.part.start()
    await replica.part.untilReady()
    await until('the replica follows', async () => (await this.ask('SELECT FROM pg_stat_replication')).length > 0)
  }

  async #copy(from: DatabaseNode, to: string): Promise<void> {
    const client = new pg.Client({ ...from.local, user: 'postgres', database: DATABASE })
    await client.connect()
    try {
      await client.query("SELECT pg_backup_start('replica', true)")
      copyFolder(clusterOf(from), to)
      const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)')
      this.#write(to, 'backup_label', rows[0]?.labelfile ?? '')
      // What was written until now belongs to the backup.
      copyFolder(path.join(clusterOf(from), 'pg_wal'), path.join(to, 'pg_wal'))
    } finally {
      await client.end()
    }
    rmSync(path.join(to, 'postmaster.pid'), { force: true })
  }

  /** Makes the replica the primary; the former one must have ended. */
  async promote(): Promise<void> {
    await this.ask('SELECT pg_promote(true, 60)', [], this.replica)
    this.#primary = this.#primary === 0 ? 1 : 0
  }

  /** Starts the former primary where nobody else finds it. Its successor is promoted, and not yet copied over it. */
  async withFormer<T>(work: (former: DatabaseNode) => Promise<T>): Promise<T> {
    const { folder, port } = this.replica
    const former = makeNode(folder, port, this.#making, 'former')
    former.part.start()
    try {
      await former.part.untilReady()
      return await work(former)
    } finally {
      await former.part.stop()
    }
  }

  /** Whether a commit waits for the replica. */
  async setSynchronous(on: boolean): Promise<void> {
    await this.ask(`ALTER SYSTEM SET synchronous_standby_names = '${on ? '*' : ''}'`)
    await this.ask('SELECT pg_reload_conf()')
    if (!on) return
    const isSynchronous = async () =>
      (await this.ask("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")).length > 0
    await until('the replica is synchronous', isSynchronous)
  }

  writeCertificate(expired = false): void {
    for (const { folder } of this.nodes) {
      this.#write(folder, 'server.crt', expired ? this.#options.key.expired : this.#options.key.certificate)
      this.#write(folder, 'server.key', this.#options.key.pem)
    }
  }

  #write(folder: string, name: string, text: string): void {
    const file = path.join(folder, name)
    writeFileSync(file, text, { mode: 0o600 })
    giveTo(this.#account, file)
  }
}

const clusterOf = ({ folder }: DatabaseNode) => path.join(folder, 'cluster')

interface Making {
  account: PostgresAccount
  binaries: PostgresBinaries
  options: DatabaseOptions
}

/** @param hidden subfolder for its socket, where it listens at no address */
function makeNode(folder: string, port: number, making: Making, hidden?: string): DatabaseNode {
  const { account, binaries, options } = making
  const sockets = path.join(folder, hidden ?? '')
  for (const one of [folder, sockets]) {
    mkdirSync(one, { recursive: true })
    chmodSync(one, 0o755)
    giveTo(account, one)
  }
  const hba = path.join(folder, 'pg_hba.conf')
  writeFileSync(hba, ACCESS, { mode: 0o644 })
  const settings = {
    ...SETTINGS,
    port,
    ...(hidden !== undefined && { listen_addresses: '' }),
    unix_socket_directories: sockets,
    hba_file: hba,
    ssl_cert_file: path.join(folder, 'server.crt'),
    ssl_key_file: path.join(folder, 'server.key'),
  }
  const local = { host: sockets, port }
  const part = new Part({
    name: `database ${path.basename(folder)}`,
    command: [binaries.postgres, '-D', path.join(folder, 'cluster'), ...renderSettings(settings)],
    env: { LC_ALL: 'C', ...options.env },
    runAs: account.runAs,
    logFile: `${folder}.log`,
    endsBy: 'SIGINT',
    isReady: () => answers(local),
  })
  return { part, folder, port, local }
}

async function answers(local: { host: string; port: number }): Promise<boolean> {
  const client = new pg.Client({ ...local, user: 'postgres', database: DATABASE, connectionTimeoutMillis: 2_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    // It starts, recovers, or has ended.
    return false
  }
}

/** Files that the server removes meanwhile are no part of a backup: tar leaves with 1 for them, with 2 for worse. */
function copyFolder(from: string, to: string): void {
  const archive = `${to}.tar`
  const names = readdirSync(from)
  const args = ['-C', from, '--ignore-failed-read', '--warning=none', '-cf', archive, '--', ...names]
  const { status, stderr } = spawnSync('tar', args, { encoding: 'utf8' })
  if (status !== 0 && status !== 1) throw new Error(`the copy of ${from} failed: ${stderr}`)
  execFileSync('tar', ['-C', to, '-xpf', archive])
  rmSync(archive)
}
