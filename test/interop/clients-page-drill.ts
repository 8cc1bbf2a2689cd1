/**
 * Runs the blocks of docs/clients.md as they stand, for `clients-page.test.ts`: a service at https://acme.corp.example, a zone corp.example that takes
 * dynamic updates, and a host www.corp.example on a network that only this program sees. The folders that clients write to are its own.
 *
 * A credential's two words and an account's URL are all that is put in place of the page's.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes, X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect as connectPlainly } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { connect } from 'node:tls'
import { checkChain } from '../support/chain.ts'
import { type Daemon, startDaemon, waitFor } from '../support/daemon.ts'
import { createCredential, operate } from '../support/operator.ts'
import { type NetworkHost, openNetwork } from '../support/own-network.ts'
import { blocksOf, isFile, type PageBlock } from '../support/page-blocks.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { obtainByPersist } from './clients-page-persist.ts'
import { ADDRESS, COMMON, STORIES, type Step, type Story } from './clients-page-stories.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const PREFIX = ADDRESS.replace(/\.\d+$/, '')
/** A machine that is busy with other tests does not reach it. */
const SERVED_MS = 240_000
const DEPLOYED = '/var/log/acme-renewals.log'
/** A home, logs and state, of this program's mount namespace only. */
const OWN_FOLDERS = [
  '/root',
  '/run',
  '/usr/local/sbin',
  '/usr/local/share/ca-certificates',
  '/var/lib',
  '/var/log',
  '/var/www',
]

/** By block: null, or why it failed. */
export type Outcomes = Record<string, string | null>

const folder = mkdtempSync(path.join(tmpdir(), 'chancery-clients-page-'))
const blocks = new Map(blocksOf(path.join(ROOT, 'docs/clients.md')).map((block) => [block.name, block]))
const daemons: Daemon[] = []

function mountOwnFolders(): void {
  const copy = path.join(folder, 'etc')
  execFileSync('cp', ['-a', '/etc', copy])
  execFileSync('mount', ['--bind', copy, '/etc'])
  for (const own of OWN_FOLDERS) {
    // What packages have made there is there, and empty.
    const made = readdirSync(own, { withFileTypes: true }).filter((one) => one.isDirectory())
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', own])
    for (const { name } of made) mkdirSync(path.join(own, name))
  }
  writeFileSync('/etc/resolv.conf', `nameserver ${PREFIX}.254\n`)
  writeFileSync('/etc/hosts', '127.0.0.1 localhost\n')
}

function startKnot(): Daemon {
  const secret = randomBytes(32).toString('base64')
  writeFileSync('/etc/acme-tsig.key', `key "acme" { algorithm hmac-sha256; secret "${secret}"; };\n`, { mode: 0o600 })
  writeFileSync('/etc/acme-tsig.secret', secret, { mode: 0o600 })
  const zone = [
    '$TTL 60',
    '@ SOA ns hostmaster 1 3600 600 86400 1',
    '@ NS ns',
    ...['ns', 'acme'].map((name) => `${name} A ${PREFIX}.254`),
    `www A ${ADDRESS}`,
  ]
  writeFileSync(path.join(folder, 'corp.example.zone'), `${zone.join('\n')}\n`)
  const config = [
    'server:',
    `  rundir: "${folder}"`,
    `  listen: ${PREFIX}.254@53`,
    'database:',
    `  storage: "${folder}/knot"`,
    'log:',
    '  - target: stderr',
    '    any: info',
    'key:',
    '  - id: acme',
    '    algorithm: hmac-sha256',
    `    secret: ${secret}`,
    'acl:',
    '  - id: acme',
    '    key: acme',
    '    action: update',
    'zone:',
    '  - domain: corp.example',
    `    storage: "${folder}"`,
    '    file: corp.example.zone',
    '    zonefile-sync: -1',
    '    acl: acme',
  ]
  mkdirSync(path.join(folder, 'knot'))
  const file = path.join(folder, 'knot.conf')
  writeFileSync(file, `${config.join('\n')}\n`)
  return startDaemon('knotd', ['-c', file], { logFile: path.join(folder, 'knot.log') })
}

function startService(connection: DatabaseConnection): Promise<TestService> {
  const keyFile = path.join(folder, 'eab.key')
  writeFileSync(keyFile, randomBytes(32), { mode: 0o600 })
  return startTestService({
    fronts: 1,
    // Made outside, where process numbers are everybody's; its socket is a file.
    database: { connection, drop: async () => undefined },
    config: {
      server: {
        external_url: 'https://acme.corp.example',
        bind: `${PREFIX}.254`,
        port: 443,
        tls: {
          cert_path: path.join(folder, 'own.pem'),
          key_path: path.join(folder, 'own.key'),
          self_issued_names: ['acme.corp.example'],
        },
      },
      acme: { eab_key_file: keyFile },
      api: { roots_path: '/roots.pem' },
      crl: { enabled: true, http_port: 80 },
      challenges: {
        enabled: ['http-01', 'dns-01', 'tls-alpn-01', 'dns-persist-01'],
        http01: { port: 80 },
        dnspersist01: { issuer_domain_names: ['acme.corp.example'] },
      },
      dns: { resolvers: [`${PREFIX}.254`], zones: [] },
      security: { identifier_policy: { allow_ip: true } },
    },
  })
}

const settled = (text: string, values: Record<string, string>) =>
  Object.entries(values).reduce((all, [word, value]) => all.replaceAll(word, value), text)

function block(name: string): PageBlock {
  const found = blocks.get(name)
  assert.ok(found, `docs/clients.md has no block ${name}`)
  return found
}

/** Writes a file, or runs commands on the host. */
async function carryOut(host: NetworkHost, one: PageBlock, values: Record<string, string>): Promise<void> {
  const text = settled(one.text, values)
  if (isFile(one)) {
    mkdirSync(path.dirname(one.name), { recursive: true })
    writeFileSync(one.name, text)
    chmodSync(one.name, text.startsWith('#!') ? 0o755 : 0o644)
    return
  }
  const { code, output } = await runCommand(...host.command(0, 0, 'sh', '-euc', `cd /root\n${text}`), {
    env: { HOME: '/root' },
  })
  assert.equal(code, 0, output)
}

const leafOf = (file: string) => (existsSync(file) ? new X509Certificate(readFileSync(file)) : undefined)
const timesDeployed = () => (existsSync(DEPLOYED) ? readFileSync(DEPLOYED, 'utf8').split('\n').length - 1 : 0)

async function take(
  host: NetworkHost,
  service: TestService,
  step: Step,
  values: Record<string, string>,
): Promise<void> {
  const former = step.gives && leafOf(step.gives.file)
  await carryOut(host, block(step.block), values)
  if (step.gives) {
    const { file, names, isNew } = step.gives
    const leaf = checkChain({ chainPem: readFileSync(file, 'utf8'), rootFile: service.ca.root, names })
    if (isNew) assert.notEqual(leaf.serialNumber, former?.serialNumber)
  }
  if (step.deployed !== undefined) assert.equal(timesDeployed(), step.deployed)
  if (step.serves) await serve(host, service, step.serves)
}

async function serve(host: NetworkHost, service: TestService, [program, ...args]: readonly string[]): Promise<void> {
  const env = { HOME: '/var/lib', XDG_DATA_HOME: '/var/lib' }
  const daemon = startDaemon(...host.command(0, 0, program as string, ...args), {
    logFile: path.join(folder, `${program}.log`),
    env,
  })
  daemons.push(daemon)
  const ask = () => {
    // A new certificate waits until Apache reads its configuration again.
    if (program === 'apache2' && /has been setup/.test(daemon.output())) daemon.process.kill('SIGUSR1')
    return program === 'nginx' ? isOpen() : isServed(readFileSync(service.ca.root))
  }
  await waitFor(`an answer of ${program}`, daemon, ask, SERVED_MS)
}

function isOpen(): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = connectPlainly({ host: ADDRESS, port: 80 }, () => {
      resolve(true)
      socket.end()
    })
    socket.once('error', () => resolve(undefined))
  })
}

/** Whether a browser that trusts the root alone is content; undefined when it is not. */
function isServed(ca: Buffer): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: ADDRESS, port: 443, servername: 'www.corp.example', ca }, () => {
      resolve(true)
      socket.end()
    })
    socket.once('error', () => resolve(undefined))
  })
}

async function tell(story: Story, host: NetworkHost, service: TestService): Promise<Outcomes> {
  const outcomes: Outcomes = {}
  const kid = story.client.replaceAll(/\W/g, '-')
  const { hmacKey } = await createCredential(service, kid)
  const values = { 'kid-of-this-host': kid, 'key-of-this-host': hmacKey.toString('base64url') }
  rmSync(DEPLOYED, { force: true })
  try {
    for (const step of story.steps) {
      outcomes[step.block] = 'not reached'
      await take(host, service, step, values)
      outcomes[step.block] = null
    }
    if (story.hasBinding) {
      const { used } = JSON.parse(await operate(service, 'eab', 'show', kid, '--json')) as { used: boolean }
      assert.ok(used, `the credential of ${story.client} was not used`)
    }
  } catch (error) {
    const step = story.steps.find((one) => outcomes[one.block] !== null) ?? story.steps[0]
    if (step) outcomes[step.block] = String(error instanceof Error ? error.message : error)
  }
  for (const daemon of daemons.splice(1)) await daemon.stop()
  return outcomes
}

/** The record of a wildcard, which the page publishes once, serves an order of the account that it names. */
async function tellOfPersist(host: NetworkHost, service: TestService): Promise<Outcomes> {
  try {
    const publish = (accountUrl: string) => carryOut(host, block('persist'), { 'account-url-of-this-host': accountUrl })
    const chainPem = await obtainByPersist(
      'https://acme.corp.example/directory',
      service.ca.root,
      '*.corp.example',
      publish,
    )
    checkChain({ chainPem, rootFile: service.ca.root, names: ['*.corp.example'] })
    return { persist: null }
  } catch (error) {
    return { persist: String(error instanceof Error ? error.message : error) }
  }
}

/** Debian's modules and a folder to write to; the rest is the page's file. */
function writeApacheFrame(): void {
  const modules = ['mpm_event', 'authz_core', 'ssl', 'md'].map(
    (name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`,
  )
  const frame = [
    'ServerName localhost',
    'DefaultRuntimeDir /run',
    'Mutex file:/run default',
    'PidFile /run/apache2.pid',
  ]
  const rest = [
    'ErrorLog /dev/stderr',
    'LogLevel md:info',
    'User www-data',
    'Group www-data',
    'Listen 80',
    'Listen 443',
  ]
  const lines = [
    ...modules,
    ...frame,
    ...rest,
    'MDStoreDir /var/lib/md',
    'MDRetryDelay 1s',
    'Include conf-available/acme.conf',
  ]
  mkdirSync('/etc/apache2', { recursive: true })
  writeFileSync('/etc/apache2/of-the-test.conf', `ServerRoot /etc/apache2\n${lines.join('\n')}\n`)
}

async function run(connection: DatabaseConnection, clients: readonly string[]): Promise<Outcomes> {
  mountOwnFolders()
  const network = openNetwork(PREFIX)
  const host = await network.addHost(ADDRESS)
  daemons.push(startKnot())
  const service = await startService(connection)
  try {
    mkdirSync('/var/www/acme', { recursive: true })
    writeApacheFrame()
    for (const name of COMMON) await carryOut(host, block(name), {})
    const outcomes = await tellOfPersist(host, service)
    for (const story of STORIES.filter(({ client }) => clients.includes(client)))
      Object.assign(outcomes, await tell(story, host, service))
    return outcomes
  } finally {
    await service.dispose()
    for (const daemon of daemons) await daemon.stop()
  }
}

const [connection = '', ...clients] = process.argv.slice(2)
try {
  process.send?.(await run(JSON.parse(connection) as DatabaseConnection, clients))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.exit(0)
