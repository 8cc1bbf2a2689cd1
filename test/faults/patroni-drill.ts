/**
 * Two instances and their clients while the database under Patroni loses its primary, once for each fault that is named, or
 * for all:
 *
 *     node compiled/test/faults/patroni-drill.js [--asynchronous] [--by haproxy] switch-over kill-postgres …
 *
 * It prints what each fault cost, and checks the books at the end. It needs root, for network namespaces.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { HeldCertificate, PersistentClient } from '../../bench/client/persistent-client.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { announceInstance, type LeaderRole } from '../../src/store/instance-presence.ts'
import { makeAuthority, writeSignerFiles } from '../signer/authority.ts'
import { startDaemon } from '../signer/daemon.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { type Books, checkBooks } from '../support/books.ts'
import { readCrl } from '../support/crl.ts'
import { assertNoComplaints, type Crowd, startCrowd } from '../support/crowd.ts'
import { type Attempts, startOrdering, startWriter } from '../support/outage.ts'
import { runAlone } from '../support/own-network.ts'
import { WAIT_MS } from '../support/patience.ts'
import { type PatroniCluster, POSTGRES_PORT, startPatroni } from '../support/patroni.ts'
import { RelyingParty } from '../support/relying-party.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { FAULTS, type FaultName } from './patroni-faults.ts'
import {
  type Lost,
  lostInTheEnd,
  lostOf,
  prepareDatabases,
  restoredBy,
  settingsOf,
  startBalancer,
  startInstances,
} from './patroni-scene.ts'

const ROLES: Record<LeaderRole, true> = {
  cleanup: true,
  expiration: true,
  challenge: true,
  retention: true,
  audit: true,
  backends: true,
  test_sign: true,
  archive: true,
  crl: true,
}

/** Both instances are seen, and no lock of a lost connection keeps anybody from leading. */
async function assertLeadership(settings: DatabaseSettings, instances: number): Promise<void> {
  const witness = await announceInstance(settings, () => undefined)
  try {
    await until('all instances are seen', async () => (await witness.liveInstances()).length === instances + 1)
    for (const role of Object.keys(ROLES) as LeaderRole[])
      await until(`the role ${role} is free now and then`, () => witness.lead(role, async () => undefined))
  } finally {
    await witness.close()
  }
}

/** Every instance serves a list with all that was revoked. */
async function assertPublished(services: readonly TestService[], revoked: readonly HeldCertificate[]): Promise<void> {
  const serials = revoked.map(({ leaf }) => leaf.serialNumber.toLowerCase())
  for (const { baseUrl } of services)
    await until(`${serials.length} revocations in the list of ${baseUrl}`, async () => {
      const { status, body } = await send({ method: 'GET', url: `${baseUrl}/crl` })
      assert.equal(status, 200)
      const listed = new Set(readCrl(body).entries.map(({ serial }) => serial))
      return serials.every((serial) => listed.has(serial))
    })
}

export interface DrillOptions {
  isSynchronous: boolean
  by: 'hosts' | 'haproxy'
  faults: readonly FaultName[]
}

export interface FaultCost {
  fault: FaultName
  /** For how long no host took writes; by way of HAProxy, where the instances go that way. */
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
  /** What the signer gave back after fail-overs, and how often an alarm said so. */
  restored: Lost
  alarms: number
  lost: Lost
  /** With a synchronous replica. */
  books?: Books
}

/** Runs it in namespaces of its own. Everything is below one folder, also what its parts take for temporary files. */
export async function drill(options: DrillOptions): Promise<DrillResult> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-patroni-'))
  try {
    return (await runAlone(PROGRAM, [JSON.stringify(options), folder])) as unknown as DrillResult
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const PROGRAM = fileURLToPath(import.meta.url)
/** For everything that a client wants; the longest drill takes half of it. */
const CLIENT_MS = 1_800_000
const RECOVERED_MS = 3 * WAIT_MS
/** In which late consequences show. */
const AFTERWARDS_MS = 3_000

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
    accounts: 4,
    ordersAtOnce: 1,
    pauseMs: 300,
    revokesEvery: 5,
    timeoutMs: CLIENT_MS,
  })
  const relying = services.map(({ baseUrl }) => new RelyingParty(() => baseUrl))
  const complaints: string[] = []
  const writer = startWriter(place.hosts, place.port)
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
  const lost = await lostInTheEnd(() => lostOf(connection, crowd))
  await assertPublished(services, crowd.revoked)
  for (const one of relying) {
    await one.end()
    one.assertNeverBack()
  }
  let books: Books | undefined
  if (isSynchronous) {
    assertNoComplaints(crowd)
    books = await checkBooks({ connection, folder: files.folder, held: crowd.held })
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
    ...restoredBy(services),
    lost,
    ...(books && { books }),
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
  const isBack = (attempts: Attempts) => (attempts.lastSuccess() ?? 0) > performance.now() - 1_000
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

const USAGE = `patroni-drill.js [--asynchronous] [--by haproxy] [FAULT…]\nFaults, all of them where none is named: ${Object.keys(FAULTS).join(', ')}`

/** A person's words, or options of `drill` with its folder. */
async function main(args: string[]): Promise<void> {
  const [given = '', folder] = args
  if (folder !== undefined && given.startsWith('{')) {
    process.once('disconnect', () => process.exit(1))
    process.env['TMPDIR'] = folder
    process.send?.(await run(JSON.parse(given) as DrillOptions, folder))
    return
  }
  const options = {
    asynchronous: { type: 'boolean' },
    by: { type: 'string', default: 'hosts' },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  const isKnown = positionals.every((name) => Object.hasOwn(FAULTS, name))
  if (values.help || !isKnown) {
    console.log(USAGE)
    process.exitCode = isKnown ? 0 : 2
    return
  }
  const by = values.by === 'haproxy' ? 'haproxy' : 'hosts'
  const faults = (positionals.length > 0 ? positionals : Object.keys(FAULTS)) as FaultName[]
  console.log(JSON.stringify(await drill({ isSynchronous: !values.asynchronous, by, faults }), undefined, 2))
}

if (process.argv[1] === PROGRAM) {
  await main(process.argv.slice(2))
  process.exit()
}
