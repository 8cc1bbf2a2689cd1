/**
 * A whole installation for `chancery doctor`: PostgreSQL, signer and service as users of their own, nginx with the example
 * below deploy/proxy in front, a CRL over plain HTTP, a name server and a mail server.
 * It is started once: most faults need only another file or another nginx.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { parseDocument, stringify } from 'yaml'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { ask } from '../../src/doctor/facts/http.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { SIGNER_PROGRAM } from '../signer/daemon.ts'
import { settingsFor } from '../store/support.ts'
import { testCa } from '../support/ca.ts'
import { runChancery } from '../support/commands.ts'
import { freePort } from '../support/free-port.ts'
import { nginx, type ProxyExample, type ProxyPorts, stopProxy } from '../support/hosts/proxies.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { runCommand } from '../support/run-command.ts'
import { until } from '../support/until.ts'
import { a, NXDOMAIN, type Script, type ScriptedDns, startDns } from '../workers/scripted-dns.ts'
import { type CertificateOptions, makeCertificate } from './certificates.ts'
import { serviceConfig, signerConfig } from './stand-configs.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
/** Numbers without names, as no system has them. */
const [SERVICE_UID, SIGNER_UID, GROUP] = [64_101, 64_102, 64_110]
/** nginx on loopback knows this host by any of its addresses. */
const OPERATORS = '127.0.0.0/8'

export interface Finding {
  id: string
  result: 'ok' | 'warning' | 'failure' | 'unknown'
  says: string
  mend: string | null
}

export interface Report {
  code: number | null
  findings: Finding[]
}

/** `lists`: for a service that serves them itself. */
export type Ports = ProxyPorts & { lists: number }
/** Values by their keys, as `server.port`; undefined takes one out. */
export type Changes = Readonly<Record<string, unknown>>

export interface Stand {
  folder: string
  files: { config: string; signer: string; secret: string; key: string; audit: string; socket: string }
  ports: Ports
  postgres: EmbeddedPostgres
  dns: ScriptedDns
  serverPort: number
  /** How the name server answers from now on; undefined as before. */
  answer(script: Script | undefined): void
  doctor(options?: {
    config?: string
    args?: readonly string[]
    prefix?: readonly string[]
    uid?: number
  }): Promise<Report>
  /** A copy of a configuration beside it, changed. */
  changed(file: 'config' | 'signer', changes: Changes): string
  /** Changes the configuration of the service itself, without a restart. @returns what undoes it */
  replaceConfig(changes: Changes): () => void
  /** For `undoLater`. */
  later(undo: () => unknown): void
  undoLater(): Promise<void>
  /** Another proxy, or another configuration of it; nginx with the example without both. */
  proxy(change?: (text: string) => string | Promise<string>, example?: ProxyExample): Promise<void>
  /** Key and chain for nginx. */
  certificate(name: string, options?: CertificateOptions): Promise<string>
  /** After `postgres.stop()`, with other settings. @returns what stops it */
  restartPostgres(settings: Record<string, string>): Promise<() => Promise<void>>
  asSuperuser(...statements: string[]): Promise<void>
  mail: MailServer
  stopSigner(): Promise<void>
  startSigner(): Promise<void>
  stopService(): Promise<void>
  /** @param uid 0 for root */
  startService(uid?: number, config?: string): Promise<void>
  stop(): Promise<void>
}

export async function startStand(): Promise<Stand> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-doctor-'))
  chmodSync(folder, 0o755)
  const at = (name: string) => path.join(folder, name)
  const ports = { http: await freePort(), https: await freePort(), service: await freePort(), lists: await freePort() }
  const undos: (() => unknown)[] = []
  const children: { signer?: ChildProcess; service?: ChildProcess; proxy?: ChildProcess } = {}

  const server = await startServer(at)
  let script: Script | undefined
  const dns = await startDns((asked) => (script ?? usualAnswers)(asked))
  const mail = await startMailServer()

  const ca = await testCa(at('ca'))
  const files = {
    config: at('config.yaml'),
    signer: at('signer.yaml'),
    secret: at('signer.secret'),
    key: at('issuer.key'),
    audit: at('signer/audit.jsonl'),
    socket: at('run/signer.sock'),
  }
  placeFiles(ca, files, at)
  writeYaml(files.signer, signerConfig(files, at, ports))
  writeYaml(files.config, serviceConfig({ files, at, ports, postgresPort: server.port, dns, mailPort: mail.port }))

  const start = (uid: number, program: string, args: string[]) =>
    spawn(process.execPath, [program, ...args], {
      uid,
      gid: GROUP,
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  const end = async (name: keyof typeof children) => {
    const child = children[name]
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }

  const stand: Stand = {
    folder,
    files,
    ports,
    postgres: server.postgres,
    dns,
    serverPort: server.port,
    mail,
    answer(next) {
      script = next
    },
    async doctor({ config = files.config, args = [], prefix = [], uid } = {}) {
      const words = ['-c', config, 'doctor', '--json', ...args]
      const drop = uid === undefined ? [] : ['setpriv', `--reuid=${uid}`, `--regid=${GROUP}`, '--clear-groups']
      const before = [...drop, ...prefix]
      const { code, output } = before.length === 0 ? await inOneProcess(words) : await runAfter(before, words)
      return { code, findings: (JSON.parse(output) as { findings: Finding[] }).findings }
    },
    changed(which, changes) {
      const file = at(`changed-${which}.yaml`)
      writeYaml(file, applied(readFileSync(files[which], 'utf8'), changes))
      return file
    },
    replaceConfig(changes) {
      const text = readFileSync(files.config, 'utf8')
      const { atime, mtime } = statSync(files.config)
      writeYaml(files.config, applied(text, changes))
      return () => {
        writeFileSync(files.config, text)
        utimesSync(files.config, atime, mtime)
      }
    },
    later: (undo) => void undos.push(undo),
    async undoLater() {
      for (const undo of undos.splice(0)) await undo()
    },
    async proxy(change = (text) => text, example = nginx) {
      if (children.proxy) await stopProxy(children.proxy)
      const file = at('proxy.conf')
      writeFileSync(file, await change(example.configuration(folder, ports, OPERATORS)))
      children.proxy = spawn(example.command, [...example.run(file, folder)], { stdio: 'inherit' })
      await until('the proxy answers', () => fetch(`http://127.0.0.1:${ports.http}/`).then(Boolean, () => undefined))
    },
    certificate: (name, options) => makeCertificate(folder, name, options),
    restartPostgres: async (settings) => {
      const { stop } = await server.start(settings)
      return stop
    },
    asSuperuser: server.asSuperuser,
    async startSigner() {
      children.signer = start(SIGNER_UID, SIGNER_PROGRAM, ['serve', '-c', files.signer])
      await until('the signer listens', () => runs(children.signer) && canConnect(files.socket))
    },
    stopSigner: () => end('signer'),
    async startService(uid = SERVICE_UID, config = files.config) {
      children.service = start(uid, CLI, ['-c', config, 'serve'])
      await until('the service is ready', () => runs(children.service) && isReady(ports.service))
    },
    stopService: () => end('service'),
    async stop() {
      await stand.undoLater()
      for (const name of ['proxy', 'service', 'signer'] as const) await end(name)
      await Promise.all([dns.close(), mail.close(), server.postgres.stop()])
      rmSync(folder, { recursive: true, force: true })
    },
  }
  try {
    await stand.certificate('both')
    await stand.startSigner()
    await stand.startService()
    await stand.proxy()
    // A certificate that names the list, and an entry in it.
    await mustSign(files.config)
    await until('the list is published', () =>
      fetch(`http://127.0.0.1:${ports.http}/crl/default`).then((reply) => reply.ok || undefined),
    )
  } catch (error) {
    await stand.stop()
    throw error
  }
  return stand
}

async function inOneProcess(words: readonly string[]) {
  const { code, stdout, stderr } = await runChancery(words)
  return { code, output: stdout || stderr }
}

function runAfter(before: readonly string[], words: readonly string[]) {
  const [program, ...rest] = [...before, process.execPath, CLI, ...words] as [string, ...string[]]
  return runCommand(program, rest)
}

/** What the name server answers while nothing else is planted. */
const usualAnswers: Script = ({ name, type }) => {
  if (name === 'com')
    return { answers: type === 'NS' ? [{ type: 'NS', name, data: 'a.gtld.test', ttl: 60 }] : [], flags: 0x01a0 }
  if (!/(^|\.)corp\.test$|^localhost$/.test(name)) return { rcode: NXDOMAIN }
  return { answers: type === 'A' ? [a(name, '127.0.0.1')] : [] }
}

/** PostgreSQL with its port on loopback, so that the doctor is a client as on another host. */
async function startServer(at: (name: string) => string) {
  const port = await freePort()
  writeFileSync(at('pg_hba.conf'), 'local all all trust\nhost all all 127.0.0.1/32 trust\n')
  const start = (settings: Record<string, string> = {}) =>
    startEmbeddedPostgres({
      dataDir: at('postgres'),
      settings: {
        ...settings,
        listen_addresses: '127.0.0.1',
        port,
        hba_file: at('pg_hba.conf'),
        max_connections: 60,
        wal_level: 'replica',
        max_wal_senders: 4,
      },
      log: () => undefined,
    })
  const postgres = await start()
  await migrate(settingsFor({ host: '127.0.0.1', port, user: 'chancery', database: 'chancery' }, 1))
  const asSuperuser = async (...statements: string[]) => {
    const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'chancery' })
    await client.connect()
    try {
      for (const statement of statements) await client.query(statement)
    } finally {
      await client.end()
    }
  }
  await asSuperuser(
    'GRANT pg_read_all_settings, pg_monitor TO chancery',
    `INSERT INTO admin_users (id, username, email, role, password_hash) VALUES (gen_random_uuid(), 'ops', 'ops@corp.test', 'admin', 'x')`,
  )
  return { postgres, start, asSuperuser, port }
}

/** Each belongs to the user of its program, and is as closed as the manual has it. */
function placeFiles(ca: DevCaFiles, files: Stand['files'], at: (name: string) => string): void {
  copyFileSync(ca.intermediate, at('issuer.pem'))
  copyFileSync(ca.root, at('root.pem'))
  copyFileSync(ca.intermediateKey, files.key)
  writeFileSync(files.secret, 'a secret of a test that has more than thirty-two bytes\n')
  for (const name of ['signer', 'run', 'state']) mkdirSync(at(name))
  own(files.key, SIGNER_UID, 0o600)
  own(files.secret, SIGNER_UID, 0o640)
  own(at('signer'), SIGNER_UID, 0o700)
  own(at('run'), SIGNER_UID, 0o750)
  own(at('state'), SERVICE_UID, 0o700)
  for (const name of ['issuer.pem', 'root.pem']) chmodSync(at(name), 0o644)
}

function applied(text: string, changes: Changes): object {
  const document = parseDocument(text)
  for (const [key, value] of Object.entries(changes)) {
    const path = key.split('.').map((part) => (/^\d+$/.test(part) ? Number(part) : part))
    if (value === undefined) document.deleteIn(path)
    else document.setIn(path, value)
  }
  return document.toJS()
}

function own(file: string, uid: number, mode: number): void {
  chownSync(file, uid, GROUP)
  chmodSync(file, mode)
}

function writeYaml(file: string, value: object, mode = 0o640): void {
  writeFileSync(file, stringify(value))
  chownSync(file, 0, GROUP)
  chmodSync(file, mode)
}

function runs(child: ChildProcess | undefined): true {
  if (child?.exitCode !== null) throw new Error('a program of the stand has ended')
  return true
}

/** With TLS or without. */
async function isReady(port: number): Promise<true | undefined> {
  const to = { to: { host: '127.0.0.1', port } }
  const asked = await Promise.all(['http', 'https'].map((scheme) => ask(`${scheme}://localhost:${port}/readyz`, to)))
  return asked.some(({ answer }) => answer?.status === 200) || undefined
}

const canConnect = (socket: string) =>
  new Promise<true | undefined>((resolve) => {
    const connection = connect(socket)
    connection.once('connect', () => {
      connection.destroy()
      resolve(true)
    })
    connection.once('error', () => resolve(undefined))
  })

async function mustSign(config: string): Promise<void> {
  const { code, output } = await runCommand(process.execPath, [CLI, '-c', config, 'ca', 'test-sign'])
  if (code !== 0) throw new Error(output)
}
