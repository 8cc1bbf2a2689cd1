/**
 * Three PostgreSQL servers under Patroni with etcd, as operators run them: each node a host of its own network, with its
 * own member of etcd. For programs that `runAlone` has started.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { stringify } from 'yaml'
import { requirePostgresAccount } from '../../../src/dev/postgres-place.ts'
import { type Network, type NetworkHost, openNetwork } from '../hosts/own-network.ts'
import { WAIT_MS } from '../patience.ts'
import { until } from '../until.ts'

/** Three servers are made, one of them copied twice. */
const START_MS = 4 * WAIT_MS
export const REST_PORT = 8008
const ETCD_PORT = 2379
export const POSTGRES_PORT = 5432
const NAMES = ['one', 'two', 'three'] as const

/** Where Debian puts the programs of a server, the newest first. */
export function debianPostgres(): string | undefined {
  const all = '/usr/lib/postgresql'
  const versions = existsSync(all) ? readdirSync(all).sort((a, b) => Number(b) - Number(a)) : []
  return versions
    .map((version) => path.join(all, version, 'bin'))
    .find((bin) => existsSync(path.join(bin, 'pg_rewind')))
}

export interface PatroniNode {
  name: string
  host: NetworkHost
  /** Asks Patroni; false where nobody answers. */
  isPrimary(): Promise<boolean>
  /** SIGKILL for PostgreSQL's first process; its others end by themselves. */
  killPostgres(): void
  /** For everything on the node: SIGKILL is a machine that is gone, SIGSTOP a virtual one that is paused. */
  signal(signal: Signal): void
  /** After SIGKILL. */
  start(): void
  killEtcd(): void
  startEtcd(): void
}

export interface PatroniCluster {
  network: Network
  nodes: readonly PatroniNode[]
  hosts: readonly string[]
  primary(): Promise<PatroniNode>
  /** Until there are a primary and two followers that stream, and where it is asked for a synchronous one. */
  untilWhole(): Promise<void>
  /** Planned: Patroni makes a follower the primary, and the primary a follower. */
  switchOver(): Promise<void>
  stop(): Promise<void>
}

export interface PatroniOptions {
  folder: string
  isSynchronous: boolean
}

interface Member {
  name: string
  role: string
  state: string
  lag?: number | string
}

export async function startPatroni({ folder, isSynchronous }: PatroniOptions): Promise<PatroniCluster> {
  const account = requirePostgresAccount(path.join(folder, 'none'), () => undefined).runAs
  const bin = debianPostgres()
  if (!account || bin === undefined) throw new Error('this needs root and the Debian package postgresql')
  const network = openNetwork()
  const hosts = await Promise.all(NAMES.map((_, index) => network.addHost(`10.77.0.${index + 1}`)))
  const addresses = hosts.map(({ address }) => address)
  const nodes = hosts.map((host, index) => {
    const home = path.join(folder, NAMES[index] as string)
    mkdirSync(home, { recursive: true })
    chownSync(home, account.uid, account.gid)
    return createNode({ name: NAMES[index] as string, host, home, bin, account, addresses, isSynchronous })
  })
  chmodSync(folder, 0o755)
  for (const node of nodes) node.start()

  const members = async (): Promise<Member[]> => {
    for (const address of addresses) {
      const answer = await ask(address, '/cluster')
      if (answer?.status === 200) return (JSON.parse(answer.text) as { members: Member[] }).members
    }
    return []
  }
  const isWhole = async () => {
    const all = await members()
    const followers = all.filter(({ role, state, lag }) => role !== 'leader' && isRunning(state) && lag === 0)
    const isSafe = !isSynchronous || followers.some(({ role }) => role === 'sync_standby')
    return all.length === NAMES.length && followers.length === NAMES.length - 1 && isSafe
  }
  return {
    network,
    nodes,
    hosts: addresses,
    async primary() {
      return until(
        'a primary',
        async () => {
          for (const node of nodes) if (await node.isPrimary()) return node
          return undefined
        },
        START_MS,
      )
    },
    async untilWhole() {
      await until('a primary with two followers', isWhole, START_MS)
    },
    async switchOver() {
      const all = await members()
      const leader = all.find(({ role }) => role === 'leader')?.name
      const next = all.find(({ role }) => role === (isSynchronous ? 'sync_standby' : 'replica'))?.name
      const [address = ''] = addresses
      const body = JSON.stringify({ leader, candidate: next })
      const answer = await fetch(`http://${address}:${REST_PORT}/switchover`, { method: 'POST', body })
      if (!answer.ok) throw new Error(`Patroni refuses to switch over: ${answer.status} ${await answer.text()}`)
    },
    async stop() {
      for (const node of nodes) node.signal('SIGKILL')
      await until('every process has ended', () => nodes.every(({ host }) => host.processes().length === 0))
    },
  }
}

/** Patroni 4 says `streaming` where 3 says `running`. */
const isRunning = (state: string) => state === 'running' || state === 'streaming'

/** @returns undefined where nobody answers, or not to the end */
async function ask(address: string, to: string): Promise<{ status: number; text: string } | undefined> {
  try {
    const answer = await fetch(`http://${address}:${REST_PORT}${to}`, { signal: AbortSignal.timeout(WAIT_MS / 60) })
    return { status: answer.status, text: await answer.text() }
  } catch {
    return undefined
  }
}

interface NodeOptions {
  name: string
  host: NetworkHost
  home: string
  bin: string
  account: { uid: number; gid: number }
  addresses: readonly string[]
  isSynchronous: boolean
}

type Signal = 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'

function createNode(options: NodeOptions): PatroniNode {
  const { host, home, account } = options
  const configuration = path.join(home, 'patroni.yaml')
  writeFileSync(configuration, stringify(patroniSettings(options)))

  function run(file: string, args: readonly string[]): ChildProcess {
    const [command, all] = host.command(account.uid, account.gid, file, ...args)
    const log = openSync(path.join(home, `${file}.log`), 'a')
    const env = { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' }
    const child = spawn(command, all, { cwd: home, stdio: ['ignore', log, log], env })
    closeSync(log)
    return child
  }
  let etcd: ChildProcess | undefined
  const startEtcd = () => {
    etcd = run('etcd', etcdArguments(options))
  }
  const postmaster = () => Number(readFileSync(path.join(home, 'data', 'postmaster.pid'), 'utf8').split('\n')[0])
  const signal = (name: Signal) => {
    for (const pid of host.processes()) signalIfThere(pid, name)
  }
  return {
    name: options.name,
    host,
    isPrimary: async () => (await ask(host.address, '/primary'))?.status === 200,
    killPostgres: () => signalIfThere(postmaster(), 'SIGKILL'),
    signal,
    start() {
      startEtcd()
      run('patroni', [configuration])
    },
    startEtcd,
    killEtcd: () => void etcd?.kill('SIGKILL'),
  }
}

function signalIfThere(pid: number, signal: Signal): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function etcdArguments({ name, home, host: { address }, addresses }: NodeOptions): string[] {
  const peers = addresses.map((other, index) => `${NAMES[index]}=http://${other}:${ETCD_PORT + 1}`).join(',')
  const values = {
    name,
    'data-dir': path.join(home, 'etcd'),
    'listen-client-urls': `http://${address}:${ETCD_PORT}`,
    'advertise-client-urls': `http://${address}:${ETCD_PORT}`,
    'listen-peer-urls': `http://${address}:${ETCD_PORT + 1}`,
    'initial-advertise-peer-urls': `http://${address}:${ETCD_PORT + 1}`,
    'initial-cluster': peers,
    // Twice to three times etcd's own values: other tests keep the machine busy.
    'heartbeat-interval': '250',
    'election-timeout': '3000',
  }
  return Object.entries(values).flatMap(([option, value]) => [`--${option}`, value])
}

function patroniSettings({ name, home, host: { address }, addresses, bin, isSynchronous }: NodeOptions): object {
  const parameters = { max_connections: 200, shared_buffers: '32MB', fsync: 'off', wal_log_hints: 'on' }
  return {
    scope: 'chancery',
    name,
    restapi: { listen: `${address}:${REST_PORT}`, connect_address: `${address}:${REST_PORT}` },
    etcd3: { hosts: addresses.map((other) => `${other}:${ETCD_PORT}`) },
    bootstrap: {
      // The shortest that Patroni 4 takes. A dead machine is replaced after `ttl`, a dead PostgreSQL at once.
      dcs: {
        ttl: 20,
        loop_wait: 1,
        retry_timeout: 3,
        primary_start_timeout: 0,
        synchronous_mode: isSynchronous,
        postgresql: { use_pg_rewind: true, parameters },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }],
    },
    postgresql: {
      listen: `${address}:${POSTGRES_PORT}`,
      connect_address: `${address}:${POSTGRES_PORT}`,
      data_dir: path.join(home, 'data'),
      bin_dir: bin,
      pgpass: path.join(home, 'pgpass'),
      authentication: { superuser: { username: 'postgres' }, replication: { username: 'replicator' } },
      // A server that has written, or replayed, what the new primary never had is copied anew where pg_rewind cannot help.
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
      pg_hba: ['local all all trust', 'host all all all trust', 'host replication all all trust'],
      parameters: { unix_socket_directories: home },
    },
  }
}
