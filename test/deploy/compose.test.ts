/**
 * deploy/compose: whether its parts fit each other and the image. Its containers run here by podman, with the machine's network and
 * a PostgreSQL of the test in place of Docker's networks and image.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { FOLDERS } from '../../deploy/build/image.ts'
import { closeConnections, type Responder, registeredClient, startResponder } from '../support/acme-client.ts'
import { databaseConfig, emptyDatabase, type TestDatabase } from '../support/database.ts'
import { overTcp, type TcpDatabase } from '../support/databases/tcp-database.ts'
import { freePort } from '../support/free-port.ts'
import { COMPOSE_FOLDER, makeVolume, planOf, readCompose } from '../support/hosts/compose.ts'
import type { RunningContainer } from '../support/hosts/containers.ts'
import { openTestImage, requireImages, type TestImage } from '../support/hosts/image.ts'
import { throughProxy } from '../support/hosts/proxies.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/**
 * Makes a folder of deploy/compose ready as its page says, by the page's own lines, with a trial CA.
 * @param from where the page copies from
 */
async function trialFolder(from: string, folder: string): Promise<void> {
  const trialCa = pageBlock('docs/operations/deploy.md', 'trial-issuer', { 'cd /etc/chancery\n': '' }).replace(
    /^chown.*\n?/m,
    '',
  )
  const places = { 'deploy/compose': from, '/srv/chancery': folder }
  const lines = pageBlock('docs/operations/containers.md', 'compose-folder', places)
  const [copies = '', secrets = ''] = lines.split(/(?<=^cd .*\n)/m)
  await mustRun('sh', ['-euc', `${copies}\n${trialCa}\n${secrets}`])
}

const ROOT = path.resolve(import.meta.dirname, '../../..')
const PROGRAMS = ['chancery', 'chancery-signer', 'healthcheck']
const { services, volumes, secrets, networks } = readCompose()
const ours = Object.entries(services).filter(([, { image }]) => image?.includes('CHANCERY_IMAGE'))

describe('compose.yaml', () => {
  test('runs our image closed: read-only, without capabilities, as users of its own', () => {
    assert.deepEqual(
      ours.map(([name]) => name),
      ['signer', 'migrate', 'service'],
    )
    for (const [name, service] of ours) {
      assert.deepEqual(
        [service.read_only, service.cap_drop, service.security_opt],
        [true, ['ALL'], ['no-new-privileges:true']],
        name,
      )
      assert.ok(PROGRAMS.includes(service.command?.[0] ?? 'chancery'), name)
      assert.ok(service.healthcheck === undefined || service.healthcheck.test[1] === 'healthcheck', name)
    }
  })

  test('gives the key to the signer alone, which has no network', () => {
    const holders = ours.filter(([, service]) => service.secrets?.includes('issuer_key')).map(([name]) => name)
    assert.deepEqual(
      [holders, services['signer']?.network_mode, services['signer']?.ports],
      [['signer'], 'none', undefined],
    )
    assert.deepEqual(services['postgres']?.networks, ['database'])
    assert.deepEqual(networks['database'], { internal: true })
  })

  test('names only volumes, secrets and services that there are, and files that are here', () => {
    for (const [name, service] of Object.entries(services)) {
      for (const volume of service.volumes ?? []) {
        const [from = '', to = ''] = volume.split(':')
        const isOurs = from.startsWith('./') ? statOf(from) : from in volumes
        assert.ok(isOurs || /\.pem$/.test(from), `${name}: ${volume}`)
        if (!from.startsWith('./') && name !== 'postgres')
          assert.ok(to.slice(1) in FOLDERS, `${to} is a folder of the image`)
      }
      for (const secret of service.secrets ?? []) assert.ok(secret in secrets, `${name}: ${secret}`)
      for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
        const wanted = condition === 'service_healthy' ? services[other]?.healthcheck : services[other]
        assert.ok(wanted, `${name}: ${other} ${condition}`)
      }
    }
  })

  test('is for the image of this version', () => {
    const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string }
    assert.ok(readFileSync(path.join(COMPOSE_FOLDER, '.env.example'), 'utf8').endsWith(`=chancery:${version}\n`))
  })
})

const statOf = (file: string) => statSync(path.join(COMPOSE_FOLDER, file), { throwIfNoEntry: false })

describe('the containers of compose.yaml', {
  ...requireAll(requireImages(), requireCommand('openssl')),
}, () => {
  const folder = path.join(temporaryFolder(), 'chancery')
  let image: TestImage
  let database: TestDatabase
  let tcp: TcpDatabase
  let responder: Responder
  let port: number
  const running: RunningContainer[] = []
  before(async () => {
    ;[image, database] = await Promise.all([openTestImage(), emptyDatabase()])
    tcp = await overTcp(database.connection)
    await trialFolder(COMPOSE_FOLDER, folder)
    port = await freePort()
    const http01Port = await freePort()
    responder = await startResponder(http01Port)
    changeConfig({
      server: { port, workers: 2 },
      database: databaseConfig(tcp.connection),
      crl: { http_port: await freePort() },
      challenges: { http01: { port: http01Port, blocked_networks: [] } },
      dns: { zones: [{ zone: 'corp.example', addresses: ['127.0.0.1'] }] },
    })
    for (const { volumes = [] } of [services['signer']!, services['service']!])
      for (const [from = '', to = ''] of volumes.map((volume) => volume.split(':')))
        if (!from.startsWith('./')) makeVolume(folder, from, FOLDERS[to.slice(1)]!)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await image?.close()
    tcp?.close()
    await database?.drop()
    rmSync(path.dirname(folder), { recursive: true, force: true })
  })

  function changeConfig(sections: Record<string, object>): void {
    const file = path.join(folder, 'config.yaml')
    const config = parse(readFileSync(file, 'utf8')) as Record<string, object>
    for (const [name, values] of Object.entries(sections)) config[name] = { ...config[name], ...values }
    writeFileSync(file, stringify(config))
  }

  const plan = (name: string) => planOf(folder, name, image.name)

  test('their configurations are valid in the image', async () => {
    const { command = [], ...signer } = plan('signer')
    const { output, code } = await image.containers.run({
      ...signer,
      command: [command[0]!, '--validate-only', ...command.slice(2)],
    })
    assert.equal(code, 0, output)
    const service = await image.containers.run({
      ...plan('service'),
      command: ['chancery', '-c', '/etc/chancery/config.yaml', '--validate-only'],
    })
    assert.equal(service.code, 0, service.output)
  })

  test('migrate the database, and again without effect', async () => {
    for (const _ of [1, 2]) {
      const { code, output } = await image.containers.run(plan('migrate'))
      assert.equal(code, 0, output)
    }
  })

  test('issue a certificate, and say that they are healthy', async (t) => {
    const signer = image.containers.start(plan('signer'))
    await signer.says('signer ready')
    const startedAt = performance.now()
    const service = image.containers.start(plan('service'))
    await service.says('service ready')
    t.diagnostic(`from the command to "service ready": ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    running.push(service, signer)
    const { send, close } = throughProxy({ https: port })
    const client = await registeredClient('https://acme.corp.example/directory', undefined, send)
    const { der } = await client.obtain(['www.corp.example'], responder)
    assert.match(new X509Certificate(der).issuer, /CN=/)
    const roots = await send({ method: 'GET', url: 'https://acme.corp.example/roots.pem' })
    assert.equal(roots.text, readFileSync(path.join(folder, 'root.pem'), 'utf8'))
    close()
    for (const [container, name] of [
      [signer, 'signer'],
      [service, 'service'],
    ] as const) {
      const [, ...command] = services[name]!.healthcheck!.test
      const asked = command.map((word) => word.replace(':8443', `:${port}`))
      const { code, output } = await image.containers.exec(container, ...asked)
      assert.equal(code, 0, output)
    }
  })

  test('end with 0 when they are told to', async () => {
    for (const container of running.splice(0))
      assert.equal(await container.stop(), 0, container.lines.slice(-5).join('\n'))
  })
})
