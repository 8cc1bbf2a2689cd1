/**
 * Runs the blocks of docs/clients.md as they stand, for `clients-page.test.ts`, on a host www.corp.example of a network that only this
 * program sees. A credential's two words and an account's URL are all that is put in place of the page's.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect as connectPlainly } from 'node:net'
import path from 'node:path'
import { connect } from 'node:tls'
import { answerOf, createAcmeClient, csrFor, locationOf, type Transport } from '../support/acme-client.ts'
import { checkChain } from '../support/chain.ts'
import { type Daemon, startDaemon, waitFor } from '../support/daemon.ts'
import { bindingFor, createCredential, type EabCredential, operate } from '../support/operator.ts'
import { type NetworkHost, openNetwork } from '../support/own-network.ts'
import { blocksOf, isFile, type PageBlock } from '../support/page-blocks.ts'
import { WAIT_MS } from '../support/patience.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { runCommand } from '../support/run-command.ts'
import type { TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { mountOwnFolders, PREFIX, startKnot, startService, writeApacheFrame } from './clients-page-scene.ts'
import { ADDRESS, COMMON, STORIES, type Step, type Story } from './clients-page-stories.ts'

function overTls(agent: Agent): Transport {
  return ({ method = 'POST', url, headers = {}, body }) =>
    new Promise((resolve, reject) => {
      const outgoing = request(url, { method, agent, headers }, (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('end', () => resolve(answerOf(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks))))
      })
      outgoing.on('error', reject)
      outgoing.end(body)
    })
}

/**
 * Meets dns-persist-01, which no client of Debian does yet: registers, has a record published, and orders.
 * @returns the chain
 */
async function obtainByPersist(
  directoryUrl: string,
  rootFile: string,
  name: string,
  credential: EabCredential,
  publish: (accountUrl: string) => Promise<void>,
): Promise<string> {
  const agent = new Agent({ ca: readFileSync(rootFile) })
  const client = await createAcmeClient(directoryUrl, undefined, overTls(agent))
  const externalAccountBinding = bindingFor(client, credential)
  const account = await client.newAccount({ termsOfServiceAgreed: true, externalAccountBinding })
  assert.equal(account.status, 201, account.text)
  await publish(client.kid)
  const order = await client.newOrder([name])
  const [url] = order.json.authorizations
  const { challenges } = (await client.post(url)).json
  const challenge = challenges.find(({ type }: { type: string }) => type === 'dns-persist-01')
  await client.post(challenge.url, {})
  const authorization = await client.settled(url)
  assert.equal(authorization.json.status, 'valid', authorization.text)
  const finalized = await client.post(order.json.finalize, { csr: await csrFor([name]) })
  const done = finalized.json.status === 'processing' ? await client.settled(locationOf(order)) : finalized
  const chain = (await client.post(done.json.certificate)).text
  agent.destroy()
  return chain
}

/** A machine that is busy with other tests does not reach it. */
const SERVED_MS = 4 * WAIT_MS
const DEPLOYED = '/var/log/acme-renewals.log'
/** By block: null, or why it failed. */
export type Outcomes = Record<string, string | null>

const folder = temporaryFolder()
const blocks = new Map(blocksOf('docs/clients.md').map((block) => [block.name, block]))
const daemons: Daemon[] = []

const settled = (text: string, values: Record<string, string>) =>
  Object.entries(values).reduce((all, [word, value]) => all.replaceAll(word, value), text)

function block(name: string): PageBlock {
  const found = blocks.get(name)
  assert.ok(found, `docs/clients.md has no block ${name}`)
  return found
}

/** Writes a file, or runs commands on the host. @returns what they print */
async function carryOut(host: NetworkHost, one: PageBlock, values: Record<string, string>): Promise<string> {
  const text = settled(one.text, values)
  if (isFile(one)) {
    mkdirSync(path.dirname(one.name), { recursive: true })
    writeFileSync(one.name, text)
    chmodSync(one.name, text.startsWith('#!') ? 0o755 : 0o644)
    return ''
  }
  const { code, output } = await runCommand(...host.command(0, 0, 'sh', '-euc', `cd /root\n${text}`), {
    env: { HOME: '/root' },
  })
  assert.equal(code, 0, output)
  return output
}

/** What the page has people compare is every certificate that it has them install. */
async function trustRoots(host: NetworkHost): Promise<Outcomes> {
  try {
    const shown = [...(await carryOut(host, block('roots'), {})).matchAll(/Fingerprint=(\S+)/g)].map(([, one]) => one)
    await carryOut(host, block('trust'), {})
    const installed =
      readFileSync('/etc/ssl/corp-roots.pem', 'utf8').match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []
    assert.equal(installed.length, 2)
    assert.deepEqual(
      shown,
      installed.map((pem) => new X509Certificate(pem).fingerprint256),
    )
    return { roots: null }
  } catch (error) {
    return { roots: String(error instanceof Error ? error.message : error) }
  }
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
    const { used } = JSON.parse(await operate(service, 'eab', 'show', kid, '--json')) as { used: boolean }
    assert.ok(used, `the credential of ${story.client} was not used`)
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
    const publish = async (accountUrl: string) => {
      await carryOut(host, block('persist'), { 'account-url-of-this-host': accountUrl })
    }
    const chainPem = await obtainByPersist(
      'https://acme.corp.example/directory',
      service.ca.root,
      '*.corp.example',
      await createCredential(service, 'persist'),
      publish,
    )
    checkChain({ chainPem, rootFile: service.ca.root, names: ['*.corp.example'] })
    return { persist: null }
  } catch (error) {
    return { persist: String(error instanceof Error ? error.message : error) }
  }
}

async function run(connection: DatabaseConnection, clients: readonly string[]): Promise<Outcomes> {
  mountOwnFolders(folder)
  const network = openNetwork(PREFIX)
  const host = await network.addHost(ADDRESS)
  daemons.push(startKnot(folder))
  const service = await startService(folder, connection)
  try {
    mkdirSync('/var/www/acme', { recursive: true })
    writeApacheFrame()
    const outcomes = await trustRoots(host)
    for (const name of COMMON) await carryOut(host, block(name), {})
    Object.assign(outcomes, await tellOfPersist(host, service))
    for (const story of STORIES.filter(({ client }) => clients.includes(client)))
      Object.assign(outcomes, await tell(story, host, service))
    return outcomes
  } finally {
    await service.dispose()
    for (const daemon of daemons) await daemon.stop()
  }
}

const [connection = '', ...clients] = process.argv.slice(2)
process.send?.(await run(JSON.parse(connection) as DatabaseConnection, clients))
process.exit(0)
