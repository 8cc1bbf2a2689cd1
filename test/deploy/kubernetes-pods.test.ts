/**
 * The containers of two pods of deploy/kubernetes, with the users, groups and modes that the kubelet gives them: they issue, and an
 * upgrade replaces them one by one while clients work. Their network is the machine's; HAProxy stands for the balancer.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { makeAuthority } from '../signer/authority.ts'
import { closeConnections, type Responder, startResponder } from '../support/acme-client.ts'
import type { ContainerPlan, RunningContainer } from '../support/containers.ts'
import { emptyDatabase, type TestDatabase } from '../support/database.ts'
import { debianRoots } from '../support/debian-root.ts'
import { freePort } from '../support/free-port.ts'
import { openTestImage, requireImages, type TestImage } from '../support/image.ts'
import { copyManifests, debianKubectl, podPlans, type Resource, render } from '../support/kubernetes.ts'
import { haproxy, makeCertificate } from '../support/proxies.ts'
import { endLanes, startLane } from '../support/proxy-flows.ts'
import { requireAll } from '../support/requirements.ts'
import type { TestService } from '../support/service.ts'
import { FLOWS } from '../support/steady-flows.ts'
import { overTcp, type TcpDatabase } from '../support/tcp-database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const NEXT_RELEASE = path.resolve(import.meta.dirname, '../../../test/fixtures/next-release')

interface Pod {
  port: number
  plans: Record<string, ContainerPlan>
  signer: RunningContainer
  service: RunningContainer
}

describe('two pods of deploy/kubernetes', {
  ...requireAll(requireImages(), haproxy.required, debianRoots),
}, () => {
  const folder = temporaryFolder()
  const cleanups: (() => unknown)[] = []
  const root = makeAuthority('P-256', { name: 'Root' })
  const issuer = makeAuthority('P-256', { name: 'Issuer', by: root })
  const secrets = {
    'chancery-database': { password: '', 'ca.crt': root.certificatePem },
    'chancery-admin': { 'token-secret': randomBytes(32).toString('hex') },
    'chancery-signer-secret': { 'signer.secret': randomBytes(32).toString('hex') },
    'chancery-issuer-key': { 'issuer.key': String(issuer.privateKey.export({ format: 'pem', type: 'pkcs8' })) },
  }
  let image: TestImage
  let database: TestDatabase
  let tcp: TcpDatabase
  let responder: Responder
  let http01Port: number
  let base: Resource[]
  let migrate: Resource[]
  const pods: Pod[] = []

  before(async () => {
    makeCertificate(folder)
    ;[image, database] = await Promise.all([openTestImage(), emptyDatabase()])
    cleanups.push(() => database.drop())
    tcp = await overTcp(database.connection)
    cleanups.push(() => tcp.close())
    cleanups.push(() => image.close())
    secrets['chancery-database'].password = database.connection.password ?? ''
    http01Port = await freePort()
    responder = await startResponder(http01Port)
    cleanups.push(() => responder.close())
    const kubectl = await debianKubectl()
    const manifests = path.join(folder, 'kubernetes')
    copyManifests(manifests, { 'root.pem': root.certificatePem, 'issuer.pem': issuer.certificatePem })
    base = await render(kubectl, path.join(manifests, 'base'))
    migrate = await render(kubectl, path.join(manifests, 'migrate'))
  })
  after(async () => {
    closeConnections()
    for (const cleanup of cleanups.toReversed()) await cleanup()
  })

  /** For the database, the responder and HAProxy of the test. Names are those of the flows. */
  async function fitConfiguration(volume: string, port: number): Promise<void> {
    const file = path.join(volume, 'config.yaml')
    const config = parse(readFileSync(file, 'utf8'))
    const { host, port: databasePort, user, database: name } = tcp.connection
    config.database = {
      host,
      port: databasePort,
      user,
      database: name,
      password: config.database.password,
      sslmode: 'disable',
    }
    config.server = { ...config.server, port, tls: undefined, workers: 1, overload: { enabled: false } }
    config.proxy = { enabled: true, trusted_proxies: ['127.0.0.1'] }
    config.crl.http_port = await freePort()
    config.admin_api.listen.port = await freePort()
    config.acme.eab_required = false
    config.security.identifier_policy = {}
    config.security.rate_limits = { ...config.security.rate_limits, enabled: false }
    config.challenges = { http01: { port: http01Port, blocked_networks: [] } }
    config.dns = { zones: [{ zone: 'test', addresses: ['127.0.0.1'] }] }
    writeFileSync(file, stringify(config))
  }

  function plansOf(resources: readonly Resource[], kind: string, place: string, name: string) {
    const template = resources.find((resource) => resource.kind === kind)!
    return podPlans(resources, template, { folder: place, image: name, secrets })
  }

  async function runJob(name: string): Promise<void> {
    const place = path.join(folder, 'job')
    const plans = plansOf(migrate, 'Job', place, name)
    await fitConfiguration(path.join(place, 'config'), 8443)
    const { code, output } = await image.containers.run(plans['migrate']!)
    assert.equal(code, 0, output)
  }

  async function startPod(index: number, name: string): Promise<Pod> {
    const place = path.join(folder, `pod-${index}`)
    const port = pods[index]?.port ?? (await freePort())
    const plans = plansOf(base, 'StatefulSet', place, name)
    await fitConfiguration(path.join(place, 'config'), port)
    const signerConfig = path.join(place, 'signer-config/signer.yaml')
    writeFileSync(signerConfig, readFileSync(signerConfig, 'utf8').replace('[corp.example]', '[test]'))
    const copied = await image.containers.run(plans['signer-key']!)
    assert.equal(copied.code, 0, copied.output)
    const signer = image.containers.start(plans['signer']!)
    await signer.says('signer ready')
    const service = image.containers.start(plans['service']!)
    await service.says('service ready')
    return { port, plans, signer, service }
  }

  /** The kubelet ends the sidecar last. */
  async function stopPod({ signer, service }: Pod): Promise<void> {
    assert.deepEqual([await service.stop(), await signer.stop()], [0, 0])
  }

  test('have configurations that are valid as they are', async () => {
    const place = path.join(folder, 'unchanged')
    const plans = plansOf(base, 'StatefulSet', place, image.name)
    await image.containers.run(plans['signer-key']!)
    for (const [name, program] of [
      ['signer', 'chancery-signer'],
      ['service', 'chancery'],
    ] as const) {
      const file = plans[name]!.command!.find((word) => word.endsWith('.yaml'))!
      const command = [program, '-c', file, '--validate-only']
      const { code, output } = await image.containers.run({ ...plans[name]!, command })
      assert.equal(code, 0, output)
    }
  })

  test('start as the manifests say, each with a signer and a chain of its own', async () => {
    await runJob(image.name)
    pods.push(...(await Promise.all([startPod(0, image.name), startPod(1, image.name)])))
    for (const { signer } of pods) {
      const probe = base.find(({ kind }) => kind === 'StatefulSet')!.spec.template.spec.initContainers[1].startupProbe
      const { code, output } = await image.containers.exec(signer, ...probe.exec.command)
      assert.equal(code, 0, output)
    }
  })

  test('keep the key from the service', async () => {
    const look = 'console.log(fs.existsSync("/run/chancery-key"), fs.existsSync("/etc/chancery/key"))'
    const { output } = await image.containers.exec(pods[0]!.service, 'node', '-e', look)
    assert.equal(output.trim(), 'false false')
  })

  test(`an upgrade, one pod after the other, loses none of ${FLOWS} flows`, async (t) => {
    const next = await nextImage()
    const two = { folder, instances: pods as unknown as TestService[], responder, cleanups }
    const lane = await startLane('haproxy', haproxy, two)
    await lane.flows.reached(5)
    await runJob(next)
    for (const index of [1, 0]) {
      await stopPod(pods[index]!)
      pods[index] = await startPod(index, next)
      await until('HAProxy uses both pods', () => haproxy.usesAll(folder, lane.ports))
    }
    await lane.flows.reached(FLOWS)
    await endLanes([lane], (line) => t.diagnostic(`upgraded behind ${line}`))
    for (const pod of pods) await stopPod(pod)
  })

  /** This release with the migrations that a next one may have. */
  async function nextImage(): Promise<string> {
    const name = 'localhost/chancery:next'
    const { podman } = image.containers
    await podman('create', '--name=next', image.name)
    await podman('cp', `${NEXT_RELEASE}/.`, 'next:/opt/chancery/migrations/')
    await podman('commit', '--quiet', 'next', name)
    return name
  }
})
