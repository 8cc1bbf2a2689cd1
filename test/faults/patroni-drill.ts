/**
 * Two instances and their clients while the database under Patroni loses its primary, once for each fault that is named:
 *
 *     node dist/test/faults/patroni-drill.js [--asynchronous] [--by haproxy] switch-over kill-postgres …
 *
 * It prints what each fault cost, and checks the books at the end. It needs root, for network namespaces.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { HeldCertificate, PersistentClient } from '../../bench/client/persistent-client.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { startDaemon } from '../signer/daemon.ts'
import { closeConnections } from '../support/acme-client.ts'
import { type Books, checkBooks } from '../support/books.ts'
import { assertNoComplaints, type Crowd, startCrowd } from '../support/crowd.ts'
import { type Attempts, startOrdering, startWriter } from '../support/outage.ts'
import { runAlone } from '../support/own-network.ts'
import { type PatroniCluster, POSTGRES_PORT, REST_PORT, startPatroni } from '../support/patroni.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { assertLeadership, assertPublished } from './after-failover.ts'
import { FAULTS, type FaultName } from './patroni-faults.ts'

export interface DrillOptions {
  isSynchronous: boolean
  by: 'hosts' | 'haproxy'
  faults: readonly FaultName[]
}

export interface FaultCost {
  fault: FaultName
  /** For how long no host took writes. */
  postgresMs: number
  /** For how much longer an instance gave no order, at most. */
  addedMs: number
  certificates: number
}

export interface DrillResult {
  costs: FaultCost[]
  flows: number
  revocations: number
  /** Flows whose order ended invalid and that began again. */
  repeated: number
  /** How often a client was told that the service does not know its account, order or certificate. */
  forgotten: number
  unavailable: number
  mostBadNonces: number
  /** What clients hold, or had confirmed, and the database does not know. */
  lost: { certificates: number; revocations: number }
  /** With a synchronous replica. */
  books?: Books
}

/** Runs it in namespaces of its own. */
export async function drill(options: DrillOptions): Promise<DrillResult> {
  return (await runAlone(fileURLToPath(import.meta.url), [JSON.stringify(options)])) as unknown as DrillResult
}

/** For everything that a client wants; the longest drill takes half of it. */
const CLIENT_MS = 1_800_000
const RECOVERED_MS = 180_000
/** In which late consequences show. */
const AFTERWARDS_MS = 5_000
/** Of the slowest interrupted issuance or challenge, on a busy machine. */
const FINISHED_MS = 120_000

async function run({ isSynchronous, by, faults }: DrillOptions, folder: string): Promise<DrillResult> {
  const cluster = await startPatroni({ folder, isSynchronous })
  const place = by === 'haproxy' ? await startBalancer(cluster, folder) : { hosts: cluster.hosts, port: POSTGRES_PORT }
  const primary = await cluster.primary()
  await prepareDatabases(primary.host.address)
  await cluster.untilWhole()
  const files = writeSignerFiles({ default: makeAuthority() })
  // The name under which the books look for it.
  symlinkSync(files.auditFile, path.join(files.folder, 'signer-audit.jsonl'))
  const daemon = await startDaemon(files.config)
  const services = await startInstances(primary.host.address, place, files)
  const crowd = await startCrowd({
    directoryUrl: services.map(({ directoryUrl }) => directoryUrl),
    http01Port: (services[0] as TestService).http01Port,
    accounts: 8,
    ordersAtOnce: 1,
    pauseMs: 300,
    revokesEvery: 10,
    timeoutMs: CLIENT_MS,
  })
  const complaints: string[] = []
  const writer = startWriter(cluster.hosts, POSTGRES_PORT)
  const instances = await Promise.all(services.map(({ directoryUrl }) => startOrdering(directoryUrl, complaints)))
  const costs: FaultCost[] = []
  for (const fault of faults) {
    const cost = await costOf(fault, { cluster, crowd, writer, instances })
    console.log(JSON.stringify(cost))
    costs.push(cost)
  }
  for (const attempts of [writer, ...instances]) attempts.stop()
  await crowd.finish()
  await crowd.close()

  assert.deepEqual(complaints, [])
  await assertLeadership(settingsOf(place), services.length)
  const { address } = (await cluster.primary()).host
  const connection = { host: address, port: POSTGRES_PORT, user: 'chancery', database: 'chancery' }
  const lost = await lostOf(connection, crowd)
  let books: Books | undefined
  if (isSynchronous) {
    assertNoComplaints(crowd)
    await assertPublished(services, crowd.revoked)
    books = await checkBooks({ connection, folder: files.folder, held: crowd.held, boundMs: FINISHED_MS })
  }
  closeConnections()
  for (const service of services) assert.equal(await service.stop(), 0)
  await daemon.stop()
  await cluster.stop()
  const sum = (count: (client: PersistentClient) => number) =>
    crowd.clients.reduce((total, client) => total + count(client), 0)
  return {
    costs,
    flows: crowd.held.length,
    revocations: crowd.revoked.length,
    repeated: sum(({ invalidOrders }) => invalidOrders.length),
    forgotten: crowd.forgotten.length,
    unavailable: sum(({ unavailable }) => unavailable),
    mostBadNonces: Math.max(...crowd.clients.map(({ mostBadNonces }) => mostBadNonces)),
    lost,
    ...(books && { books }),
  }
}

async function lostOf(connection: DatabaseConnection, { held, revoked }: Crowd): Promise<DrillResult['lost']> {
  const serials = (certificates: readonly HeldCertificate[]) => certificates.map(({ leaf }) => leaf.serialNumber)
  const known = await withQuery(connection, (query) =>
    query('SELECT encode(serial_number, $1) AS serial, revoked_at FROM certificates', ['hex']),
  )
  const bySerial = new Map(known.map((row) => [BigInt(`0x${row['serial']}`), row]))
  const find = (serial: string) => bySerial.get(BigInt(`0x${serial}`))
  return {
    certificates: serials(held).filter((serial) => find(serial) === undefined).length,
    revocations: serials(revoked).filter((serial) => !find(serial)?.['revoked_at']).length,
  }
}

interface Scene {
  cluster: PatroniCluster
  crowd: Crowd
  writer: Attempts
  instances: readonly Attempts[]
}

async function costOf(fault: FaultName, { cluster, crowd, writer, instances }: Scene): Promise<FaultCost> {
  const primary = await cluster.primary()
  const before = crowd.held.length
  const since = performance.now()
  const repair = await FAULTS[fault](cluster, primary)
  const isBack = (attempts: Attempts) => (attempts.lastSuccess() ?? 0) > performance.now() - 500
  if (repair) await until('another primary', async () => (await cluster.primary()) !== primary, RECOVERED_MS)
  await until('orders at every instance', () => isBack(writer) && instances.every(isBack), RECOVERED_MS)
  await sleep(AFTERWARDS_MS)
  await repair?.()
  await cluster.untilWhole()
  await sleep(AFTERWARDS_MS)
  const postgresMs = Math.round(writer.outage(since))
  const instancesMs = instances.map((instance) => Math.round(instance.outage(since)))
  const addedMs = Math.max(0, ...instancesMs.map((ms) => ms - postgresMs))
  return { fault, postgresMs, addedMs, certificates: crowd.held.length - before }
}

async function prepareDatabases(host: string): Promise<void> {
  const superuser = { host, port: POSTGRES_PORT, user: 'postgres', database: 'postgres' }
  await withQuery(superuser, async (query) => {
    await query('CREATE ROLE chancery LOGIN')
    await query('CREATE DATABASE chancery OWNER chancery')
    await query('CREATE TABLE written (at timestamptz DEFAULT clock_timestamp())')
  })
}

interface Place {
  hosts: readonly string[]
  port: number
}

async function startInstances(host: string, place: Place, files: SignerFiles): Promise<TestService[]> {
  const config = {
    database: { auto_setup: true, host: place.hosts, port: place.port },
    ca: { signer: { socket: files.socket, secret_file: path.join(files.folder, 'secret'), timeout_seconds: 5 } },
    nonce: { store: 'database' },
    crl: { enabled: true },
    challenges: { background_worker: { stale_seconds: 5 } },
  }
  const connection = { host, port: POSTGRES_PORT, user: 'chancery', database: 'chancery' }
  const first = await startTestService({ fronts: 1, config, database: { connection, drop: async () => undefined } })
  const { http01Port } = first
  const second = { ...config, challenges: { ...config.challenges, http01: { port: http01Port } } }
  return [first, await startTestService({ fronts: 1, config: second, beside: first })]
}

const settingsOf = ({ hosts, port }: Place): DatabaseSettings => ({
  hosts,
  port,
  database: 'chancery',
  user: 'chancery',
  password: '',
  sslmode: 'disable',
  maxConnections: 1,
  connectionTimeoutMs: 10_000,
  idleTimeoutMs: 10_000,
  statementTimeoutMs: 30_000,
})

/** As Patroni's manual has it: the check of the primary, and connections end with it. */
async function startBalancer({ network, hosts }: PatroniCluster, folder: string): Promise<Place> {
  const port = 5000
  const file = path.join(folder, 'haproxy.cfg')
  writeFileSync(
    file,
    `defaults
  mode tcp
  timeout connect 1s
  timeout client 30m
  timeout server 30m
  timeout check 1s
listen primary
  bind ${network.address}:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
${hosts.map((host, index) => `  server node${index + 1} ${host}:${POSTGRES_PORT} check port ${REST_PORT}`).join('\n')}
`,
  )
  spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'inherit' }).unref()
  return { hosts: [network.address], port }
}

/** As a program: options come from `drill`, or from a person. */
async function main(args: readonly string[]): Promise<void> {
  const given = args[0]?.startsWith('{') ? (JSON.parse(args[0]) as DrillOptions) : undefined
  if (!given) {
    const options = { asynchronous: { type: 'boolean' }, by: { type: 'string', default: 'hosts' } } as const
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const by = values.by === 'haproxy' ? 'haproxy' : 'hosts'
    const faults = positionals as FaultName[]
    console.log(JSON.stringify(await drill({ isSynchronous: !values.asynchronous, by, faults }), undefined, 2))
    return
  }
  // Everything of the drill is below it, also what its parts put into the folder for temporary files.
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-patroni-'))
  process.env['TMPDIR'] = folder
  try {
    process.send?.(await run(given, folder))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main(process.argv.slice(2))
  process.exit()
}
