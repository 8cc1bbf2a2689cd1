/**
 * Several backends: the signer first and an external CA behind it, one for a profile, and another ACME service
 * and the external CA in front of the signer.
 */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseAuditLine } from '../../signer/audit/line.ts'
import { makeAuthority } from '../signer/authority.ts'
import { startDaemon, useSigner } from '../signer/daemon.ts'
import {
  type AcmeClient,
  type Answer,
  closeConnections,
  csrFor,
  idOf,
  locationOf,
  pemToDer,
  type Responder,
  registeredClient,
  revoke,
  send,
  serialOf,
  startResponder,
} from '../support/acme-client.ts'
import { checkBooks } from '../support/books.ts'
import { behindAcmeService } from '../support/cas/chained-service.ts'
import { type ExternalCa, startExternalCa } from '../support/cas/external-ca.ts'
import { problem, type ScriptedUpstream, startScriptedUpstream } from '../support/cas/scripted-upstream.ts'
import { readCrl } from '../support/crl.ts'
import { rowsIn } from '../support/database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { FOR_SERVERS } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const DYING = fileURLToPath(new URL('../faults/die-at.js', import.meta.url))

let ca: ExternalCa
let service: TestService
let responder: Responder
let client: AcmeClient
let orders = 0

async function start(sections: Record<string, unknown>): Promise<void> {
  service = await startTestService({ fronts: 1, config: sections })
  responder = await startResponder(service.http01Port)
  client = await registeredClient(service.directoryUrl)
}

async function stop(): Promise<void> {
  closeConnections()
  await responder?.close()
  await service?.dispose()
  await ca?.close()
}

const external = () => ({
  sign_url: `${ca.url}/sign`,
  revoke_url: `${ca.url}/revoke`,
  trust_anchors: [ca.rootFile],
  timeout_seconds: 30,
})

async function ready(more: object = {}, name = `order-${++orders}.test`): Promise<Answer> {
  const order = await client.newOrder([name], more)
  await client.authorize(order, responder)
  return order
}

const csrOf = ({ json }: Answer) => csrFor([json.identifiers[0].value])

async function finalized(more: object = {}): Promise<{ order: Answer; backend: string | null | undefined }> {
  const order = await ready(more)
  const reply = await client.post(order.json.finalize, { csr: await csrOf(order) })
  assert.equal(reply.status, 200, reply.text)
  const url = locationOf(order)
  const settled = await client.settled(url)
  const rows = await rowsIn(service.database, 'SELECT backend FROM certificates WHERE order_id = $1', [idOf(url)])
  return { order: settled, backend: rows[0]?.['backend'] as string | null | undefined }
}

describe('a signer in front of an external CA', () => {
  const signer = useSigner({ default: makeAuthority() }, { policyYaml: '{ max_crl_validity_days: 2 }' })

  before(async () => {
    ca = await startExternalCa()
    // The name under which the books look for it.
    symlinkSync(signer.files.auditFile, signer.at('signer-audit.jsonl'))
    await start({
      ca: {
        backend: 'failover',
        failover: { backends: ['internal', 'external'], probe_seconds: 1 },
        deferred_signing_timeout: 20,
        profiles: { other: { ...FOR_SERVERS, backend: 'external' } },
        signer: { ...signer.section, timeout_seconds: 10 },
        external: external(),
      },
      crl: { enabled: true },
      order: { finalize_wait_ms: 100 },
      // Its connections to the signer.
      logging: { level: 'DEBUG' },
    })
  })
  after(stop)

  const signed = () =>
    readFileSync(signer.files.auditFile, 'utf8')
      .trimEnd()
      .split('\n')
      .map(parseAuditLine)
      .flatMap((line) => (line?.method === 'signCertificate' ? [line.serial] : []))

  /** @returns the URL of an order whose certificate is signed, and nobody has it */
  async function lost(): Promise<{ url: string; serial: string }> {
    await signer.daemon.stop()
    const connections = () => service.log.filter(({ message }) => message === 'signer connected').length
    const connectionsBefore = connections()
    signer.daemon = await startDaemon(signer.files.config, ['--import', DYING], {
      CHANCERY_TEST_DIE_AT: 'audit line written',
    })
    // Else the other CA would be asked first.
    await until('the front thread and the supervisor are connected', () => connections() >= connectionsBefore + 2)
    const ended = once(signer.daemon.process, 'exit')
    const order = await ready()
    const url = locationOf(order)
    assert.equal((await client.post(order.json.finalize, { csr: await csrOf(order) })).json.status, 'processing')
    assert.deepEqual(await ended, [null, 'SIGKILL'])
    await service.untilLogged(
      'the lost answer',
      ({ event, orderId }) => event === 'signing_failed' && orderId === url.split('/').at(-1),
    )
    return { url, serial: signed().at(-1) as string }
  }
  const statusOf = async (url: string) => (await client.post(url)).json.status
  const recorded = async (serial: string) =>
    (
      await rowsIn(service.database, 'SELECT * FROM certificates WHERE serial_number = $1', [
        Buffer.from(serial, 'hex'),
      ])
    )[0]

  test('a signer that dies after it has signed and comes back completes the order, and no other CA is asked', async () => {
    const { url, serial } = await lost()
    await signer.launch()
    await until('the order is valid', async () => (await statusOf(url)) === 'valid')
    const row = await recorded(serial)
    assert.deepEqual([row?.['backend'], row?.['revoked_at']], [null, null])
    assert.deepEqual(ca.requests, [])
  })

  test('one that stays away fails the order in time with an alarm, and what it signed is revoked', async () => {
    const { url, serial } = await lost()
    await until('the order is invalid', async () => (await statusOf(url)) === 'invalid')
    const { json } = await client.post(url)
    assert.equal(json.error.detail, 'the CA did not issue the certificate in time')
    const alarm = await service.untilLogged(
      'the alarm',
      ({ event, orderId }) => event === 'alarm' && orderId === url.split('/').at(-1),
    )
    assert.equal(alarm['serialNumber'], serial)
    const row = await recorded(serial)
    assert.deepEqual([row?.['order_id'], row?.['revocation_reason']], [null, 5])
    assert.deepEqual(ca.requests, [], 'the order has stayed with the signer')

    await signer.launch()
    await until('its serial number is on the CRL', async () => {
      const { body } = await send({ method: 'GET', url: `${service.baseUrl}/crl/default` })
      return readCrl(body).entries.some((entry) => entry.serial === serial)
    })
    const { connection } = service.database
    await checkBooks({ connection, folder: signer.files.folder, held: [], boundMs: 120_000 })
  })

  async function revoked(order: Answer): Promise<string> {
    const [leaf] = pemToDer((await client.post(order.json.certificate)).text) as [Buffer]
    assert.equal((await revoke(client, leaf)).status, 200)
    return serialOf(leaf)
  }

  test('the first one issues while it is there, and revocations of its certificates stay here', async () => {
    // The breaker of the test before may still be open.
    await until('a certificate of the signer', async () => (await finalized()).backend === null)
    const asked = ca.requests.length
    const { order, backend } = await finalized()
    assert.deepEqual([order.json.status, backend], ['valid', null])
    assert.equal(ca.requests.length, asked)
    const serial = await revoked(order)
    assert.ok(!ca.revoked.includes(serial))
  })

  test('a profile may have a backend of its own', async () => {
    const { order, backend } = await finalized({ profile: 'other' })
    assert.deepEqual([order.json.status, backend], ['valid', 'external'])
    assert.equal(ca.requests.at(-1)?.body.profile, 'other')
  })

  test('the next one issues while the first is away, and revokes what it has issued', async () => {
    await signer.daemon.stop('SIGKILL')
    const ended = await Promise.all(Array.from({ length: 4 }, () => finalized()))
    assert.deepEqual(
      ended.map(({ order, backend }) => [order.json.status, backend]),
      ended.map(() => ['valid', 'external']),
    )
    const serial = await revoked((ended[0] as { order: Answer }).order)
    await until('its revocation at the CA', () => ca.revoked.includes(serial))
    const health = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
    assert.deepEqual(health.json.checks.ca_backend, {
      status: 'ok',
      backends: { internal: { status: 'error' }, external: { status: 'ok' } },
    })
  })

  test('the first one issues again when it is back', async () => {
    await signer.launch()
    await until('a certificate of the signer', async () => (await finalized()).backend === null)
  })
})

describe('another ACME service and an external CA in front of the signer', () => {
  const folder = temporaryFolder()
  const published = () => readdirSync(path.join(folder, '.well-known', 'acme-challenge'))
  const FIRST = 'first.test'
  let upstream: ScriptedUpstream

  before(async () => {
    ca = await startExternalCa()
    mkdirSync(path.join(folder, '.well-known', 'acme-challenge'), { recursive: true })
    upstream = await startScriptedUpstream(FIRST)
    await start({
      order: { finalize_wait_ms: 500 },
      ca: {
        ...behindAcmeService(upstream.directoryUrl, folder, { order_ready_timeout: 280 }),
        backend: 'failover',
        failover: { backends: ['acme_proxy', 'external', 'internal'], probe_seconds: 1 },
        circuit_breaker_failure_threshold: 1,
        circuit_breaker_recovery_timeout: 3_600,
        external: external(),
      },
    })
  })
  after(async () => {
    await stop()
    await upstream?.close()
  })

  test('orders of an upstream that goes away while it validates go on with the next backend, and no response stays published', async () => {
    upstream.script = ({ path: to }, { body }) =>
      to === '/order' ? { body: { ...(body as object), status: 'pending' } } : undefined
    const first = await ready({}, FIRST)
    const csr = await csrOf(first)
    assert.equal((await client.post(first.json.finalize, { csr })).status, 200)
    await until('a response', () => published().length === 1)

    upstream.script = () => problem(503, 'serverInternal')
    assert.equal((await finalized()).backend, 'external')
    assert.equal((await client.settled(locationOf(first))).json.status, 'valid')
    assert.deepEqual(published(), [])
    assert.equal(upstream.count('/finalize'), 0)
    const backends = await rowsIn(service.database, 'SELECT backend FROM certificates')
    assert.deepEqual(backends, [{ backend: 'external' }, { backend: 'external' }])
  })

  test('the signer issues where the CA is not available either, and a probe brings the CA back', async () => {
    assert.equal((await finalized()).backend, 'external')
    ca.behave('unavailable')
    for (let done = 0; done < 6; done++) {
      const { order, backend } = await finalized()
      assert.deepEqual([order.json.status, backend], ['valid', null])
    }
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    assert.match(text, /service_backend_failovers_total\{from="external",to="internal"\} [1-6]/)
    ca.behave('issue')
    await until('a certificate of the CA', async () => (await finalized()).backend === 'external')
  })

  test('what may have been issued stays where it is, and a refusal is final', async () => {
    for (const behaviour of ['lost answer', 'refuse'] as const) {
      // A failure has the CA left alone until it has answered a probe.
      await until('a certificate of the CA', async () => (await finalized()).backend === 'external')
      ca.behave(behaviour)
      const { order, backend } = await finalized()
      assert.deepEqual([order.json.status, backend], ['invalid', undefined], behaviour)
      ca.behave('issue')
    }
  })
})
