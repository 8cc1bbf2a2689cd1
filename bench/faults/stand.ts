/**
 * The stand: two instances behind HAProxy, a signer, and PostgreSQL with a replica. Beside them run a name server, a mail
 * server and a receiver of webhooks. Each is a process, and the links between them can be cut.
 *
 * There is one signer: its audit chain and the numbers of its lists have one writer. What takes over is another process on
 * the same files, started when the first has ended.
 */

import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import { OWN_ROOT } from '../servers/build.ts'
import { freePort } from '../servers/child.ts'
import { type ServerKey, serverKey } from './certificates.ts'
import { clockEnvironment } from './clock-files.ts'
import { balancerConfiguration, instanceConfiguration, signerConfiguration } from './configuration.ts'
import { Databases } from './databases.ts'
import { Disk } from './disks.ts'
import { Link } from './link.ts'
import { Part } from './part.ts'
import { accepts, answerOf } from './readiness.ts'
import { makeToken, SOFTHSM } from './token.ts'

export interface Instance {
  part: Part
  port: number
  key: ServerKey
  /** The instance presents this one; the balancer trusts another. */
  certificateFile: string
}

export interface Stand {
  folder: string
  /** For clients: the directory behind their link, and what they trust for TLS. */
  directoryUrl: string
  certificate: string
  http01Port: number
  auditFile: string
  webhookFile: string
  mailFile: string
  databases: Databases
  signer: Part
  instances: readonly [Instance, Instance]
  balancer: Part
  resolver: Part
  mail: Part
  webhook: Part
  disks: Disks
  links: Links
  /** Files that say how wrong a clock is. */
  clocks: Clocks
  /** Where the issuer's key is in a token. */
  tokenFolder: string | undefined
  parts: readonly Part[]
  /** Whether every instance answers /readyz with 200. */
  isReady(): Promise<boolean>
  /** Waits until every part is up, and restarts what is not within the bound, as an operator would. */
  makeWhole(withinMs: number): Promise<void>
  stop(): Promise<void>
}

interface Disks {
  database: readonly [Disk, Disk]
  audit: Disk
  temporary: Disk
}

interface Clocks {
  instances: readonly [string, string]
  signer: string
  database: string
}

interface Links {
  /** The link of all clients to the balancer. */
  clients: Link
  /** The link of each instance. */
  signer: readonly [Link, Link]
  /** The links of each instance to each node. */
  database: readonly [readonly Link[], readonly Link[]]
  replication: readonly Link[]
}

type Ports = Record<
  'https' | 'clients' | 'lists' | 'one' | 'two' | 'database' | 'resolver' | 'mail' | 'webhook' | 'http01',
  number
>

/** The ground that everything stands on. */
interface Ground {
  at(name: string): string
  ports: Ports
  disks: Disks
  clocks: Clocks
}

const PROGRAMS = path.join(OWN_ROOT, 'dist')
const INSTANCES = [0, 1] as const
const LOOPBACK = '127.0.0.1'
/** Each who uses the database reaches each node at an address of its own, and all at one port. */
const REPLICATION = 2
const databaseHost = (who: number, node: number) => `127.10.${who + 1}.${node + 1}`

/** @param folder Empty, and passable for the user of PostgreSQL. @throws Error when a part does not start */
export async function startStand(folder: string): Promise<Stand> {
  const at = (name: string) => path.join(folder, name)
  const clocks: Clocks = {
    instances: [at('clock-instance-0'), at('clock-instance-1')],
    signer: at('clock-signer'),
    database: at('clock-database'),
  }
  const ground: Ground = { at, ports: await choosePorts(), disks: makeDisks(folder), clocks }
  const { ports, disks } = ground
  const databases = await startDatabases(ground)
  const links = await makeLinks(ground, databases)
  await databases.rebuildReplica()
  const [signer, tokenFolder] = await makeSigner(ground)
  const instances = [makeInstance(ground, 0), makeInstance(ground, 1)] as const
  const [balancer, certificate] = makeBalancer(ground)
  const helper = (name: string, port: number, file?: string) => makeHelper(ground, name, port, file)
  const resolver = helper('resolver', ports.resolver)
  const mail = helper('mail-server', ports.mail, at('mails.jsonl'))
  const webhook = helper('webhook-receiver', ports.webhook, at('events.jsonl'))
  const others = [signer, resolver, mail, webhook]
  const parts = [...databases.nodes.map(({ part }) => part), ...others, ...instances.map(({ part }) => part), balancer]
  for (const part of others) part.start()
  for (const part of others) await part.untilReady()
  // One after the other: the first makes the tables.
  for (const { part } of instances) {
    part.start()
    await part.untilReady()
  }
  balancer.start()
  await balancer.untilReady()
  return {
    folder,
    directoryUrl: `https://${LOOPBACK}:${ports.clients}/directory`,
    certificate,
    http01Port: ports.http01,
    auditFile: path.join(disks.audit.folder, 'audit.jsonl'),
    webhookFile: at('events.jsonl'),
    mailFile: at('mails.jsonl'),
    databases,
    signer,
    instances,
    balancer,
    resolver,
    mail,
    webhook,
    disks,
    links,
    clocks,
    tokenFolder,
    parts,
    isReady: async () => (await Promise.all(instances.map(({ part }) => part.isReady))).every(Boolean),
    makeWhole: async (withinMs) => void (await Promise.all(parts.map((part) => wholeWithin(part, withinMs)))),
    async stop() {
      for (const part of [...parts].reverse()) await part.stop()
      const { clients, signer: tunnels, database, replication } = links
      for (const link of [clients, ...tunnels, ...database.flat(), ...replication]) await link.close()
      for (const disk of [...disks.database, disks.audit, disks.temporary]) disk.unmount()
    },
  }
}

async function wholeWithin(part: Part, withinMs: number): Promise<void> {
  try {
    await part.untilReady(withinMs)
  } catch {
    // The fault counts as one without recovery; the next one shall find a whole stand.
    await part.stop()
    part.start()
    await part.untilReady()
  }
}

async function choosePorts(): Promise<Ports> {
  const names = ['https', 'clients', 'lists', 'one', 'two', 'database', 'resolver', 'mail', 'webhook', 'http01']
  const ports: Record<string, number> = {}
  for (const name of names) ports[name] = await freePort()
  return ports as Ports
}

function makeDisks(folder: string): Disks {
  const disk = (name: string, megabytes: number) => new Disk(folder, name, megabytes)
  return {
    database: [disk('database-0', 8_192), disk('database-1', 8_192)],
    audit: disk('audit', 4_096),
    temporary: disk('temporary', 256),
  }
}

async function startDatabases({ at, ports, disks, clocks }: Ground): Promise<Databases> {
  const key = serverKey('database')
  writeFileSync(at('database.pem'), key.certificate)
  return await Databases.start({
    folders: [disks.database[0].folder, disks.database[1].folder],
    key,
    replication: { host: (node) => databaseHost(REPLICATION, node), port: ports.database },
    env: clockEnvironment(clocks.database),
  })
}

async function makeLinks({ at, ports }: Ground, { nodes }: Databases): Promise<Links> {
  const toDatabase = (who: number) =>
    Promise.all(
      nodes.map(({ port }, node) =>
        Link.between({ host: databaseHost(who, node), port: ports.database }, { host: LOOPBACK, port }),
      ),
    )
  const toSigner = (who: number) => Link.between({ path: at(`tunnel-${who}.sock`) }, { path: at('signer/signer.sock') })
  return {
    clients: await Link.between({ host: LOOPBACK, port: ports.clients }, { host: LOOPBACK, port: ports.https }),
    signer: [await toSigner(0), await toSigner(1)],
    database: [await toDatabase(0), await toDatabase(1)],
    replication: await toDatabase(REPLICATION),
  }
}

/** @returns the signer, and the folder of its token */
async function makeSigner({ at, disks, clocks }: Ground): Promise<[Part, string | undefined]> {
  const { files } = await ensureDevCa(at('ca'), new Date())
  writeFileSync(at('secret'), randomBytes(32).toString('hex'), { mode: 0o600 })
  mkdirSync(at('signer'), { mode: 0o700 })
  const token = SOFTHSM === undefined ? undefined : makeToken(at('token'), SOFTHSM, files.intermediateKey)
  const configuration = signerConfiguration({
    socket: at('signer/signer.sock'),
    secretFile: at('secret'),
    auditFile: path.join(disks.audit.folder, 'audit.jsonl'),
    ca: files,
    key: token?.key ?? { file: files.intermediateKey },
  })
  writeFileSync(at('signer.yaml'), JSON.stringify(configuration))
  const part = new Part({
    name: 'signer',
    command: [process.execPath, path.join(PROGRAMS, 'signer/start.cjs'), 'serve', '-c', at('signer.yaml')],
    env: { ...token?.env, ...clockEnvironment(clocks.signer) },
    logFile: at('signer.log'),
    isReady: () => accepts({ path: at('signer/signer.sock') }),
  })
  return [part, token?.folder]
}

function makeInstance({ at, ports, disks, clocks }: Ground, who: 0 | 1): Instance {
  const port = who === 0 ? ports.one : ports.two
  const key = serverKey(`instance ${who}`)
  const [certificateFile, keyFile, file] = [
    at(`instance-${who}.crt`),
    at(`instance-${who}.key`),
    at(`instance-${who}.json`),
  ]
  writeFileSync(certificateFile, key.certificate)
  writeFileSync(at(`trusted-${who}.crt`), key.certificate)
  writeFileSync(keyFile, key.pem, { mode: 0o600 })
  const configuration = instanceConfiguration({
    balancer: { https: ports.clients, lists: ports.lists },
    instance: { port, certificate: certificateFile, key: keyFile },
    database: {
      hosts: [0, 1].map((node) => databaseHost(who, node)),
      port: ports.database,
      certificate: at('database.pem'),
    },
    signerSocket: at(`tunnel-${who}.sock`),
    secretFile: at('secret'),
    auditLog: at(`instance-${who}.audit`),
    decisionsFile: at(`instance-${who}.decisions`),
    resolver: ports.resolver,
    http01: ports.http01,
    mail: ports.mail,
    webhook: ports.webhook,
  })
  writeFileSync(file, JSON.stringify(configuration), { mode: 0o600 })
  const part = new Part({
    name: `instance ${who}`,
    command: [process.execPath, path.join(PROGRAMS, 'src/cli/main.js'), '-c', file, 'serve'],
    env: { TMPDIR: disks.temporary.folder, ...clockEnvironment(clocks.instances[who]) },
    logFile: at(`instance-${who}.log`),
    isReady: async () => (await answerOf(port, '/readyz')) !== undefined,
  })
  return { part, port, key, certificateFile }
}

/** @returns the balancer, and the certificate that clients trust */
function makeBalancer({ at, ports }: Ground): [Part, string] {
  const { https, lists, one, two } = ports
  const key = serverKey('balancer')
  writeFileSync(at('balancer.pem'), key.certificate + key.pem, { mode: 0o600 })
  const example = readFileSync(path.join(OWN_ROOT, 'deploy/proxy/haproxy.cfg'), 'utf8')
  const instances = INSTANCES.map((who) => ({ port: who === 0 ? one : two, certificate: at(`trusted-${who}.crt`) }))
  writeFileSync(at('haproxy.cfg'), balancerConfiguration(example, { https, lists, pem: at('balancer.pem'), instances }))
  const part = new Part({
    name: 'balancer',
    command: ['haproxy', '-db', '-f', at('haproxy.cfg')],
    logFile: at('haproxy.log'),
    isReady: () => accepts({ host: LOOPBACK, port: https }),
  })
  return [part, key.certificate]
}

function makeHelper({ at }: Ground, name: string, port: number, file?: string): Part {
  const program = path.join(import.meta.dirname, `parts/${name}.js`)
  return new Part({
    name,
    command: [process.execPath, program, String(port), ...(file === undefined ? [] : [file])],
    logFile: at(`${name}.log`),
    // A name server over UDP takes no connection.
    isReady: async () => name === 'resolver' || accepts({ host: LOOPBACK, port }),
  })
}
