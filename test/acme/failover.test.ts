/** Several backends: the signer first and an external CA behind it, the other way round, and one for each profile. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import {
  type AcmeClient,
  type Answer,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { type ExternalCa, startExternalCa } from '../support/external-ca.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { aCsr, P256_KEY } from '../unit/shared/pki/support.ts'

describe('a service with several backends', () => {
  let ca: ExternalCa
  let files: SignerFiles
  let daemon: Daemon
  let first: TestService
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  let orders = 0

  const backends = (...names: string[]) => ({
    ca: {
      backend: 'failover',
      failover: { backends: names, probe_seconds: 1 },
      profiles: {
        other: { backend: 'external', key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] },
      },
      signer: { socket: files.socket, secret_file: path.join(files.folder, 'secret'), timeout_seconds: 10 },
      external: {
        sign_url: `${ca.url}/sign`,
        revoke_url: `${ca.url}/revoke`,
        trust_anchors: [ca.rootFile],
        timeout_seconds: 30,
      },
    },
  })

  before(async () => {
    ca = await startExternalCa()
    files = writeSignerFiles({ default: makeAuthority() })
    daemon = await startDaemon(files.config)
    first = service = await startTestService({ fronts: 1, config: backends('internal', 'external') })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
    if (service !== first) await first.dispose()
    await daemon.stop()
    await ca.close()
    rmSync(files.folder, { recursive: true, force: true })
  })

  async function finalized(more: object = {}): Promise<{ order: Answer; backend: string | null | undefined }> {
    const name = `order-${++orders}.test`
    const order = await client.newOrder([name], more)
    await client.authorize(order, responder)
    const csr = await aCsr(P256_KEY, { names: [{ type: 'dns', value: name }] })
    const reply = await client.post(order.json.finalize, { csr: base64url(csr) })
    assert.equal(reply.status, 200, reply.text)
    const url = order.headers.location as string
    const settled = await client.settled(url)
    const rows = await withQuery(service.database.connection, (run) =>
      run('SELECT backend FROM certificates WHERE order_id = $1', [url.split('/').at(-1)]),
    )
    return { order: settled, backend: rows[0]?.['backend'] as string | null | undefined }
  }

  async function revoke(order: Answer): Promise<string> {
    const leaf = new X509Certificate((await client.post(order.json.certificate)).text)
    const certificate = base64url(leaf.raw)
    assert.equal((await client.post(client.directory['revokeCert'] as string, { certificate })).status, 200)
    return leaf.serialNumber.toLowerCase()
  }

  test('the first one issues while it is there, and revocations of its certificates stay here', async () => {
    const { order, backend } = await finalized()
    assert.deepEqual([order.json.status, backend], ['valid', null])
    assert.equal(ca.requests.length, 0)
    const serial = await revoke(order)
    assert.ok(!ca.revoked.includes(serial))
  })

  test('a profile may have a backend of its own', async () => {
    const { order, backend } = await finalized({ profile: 'other' })
    assert.deepEqual([order.json.status, backend], ['valid', 'external'])
    assert.equal(ca.requests.at(-1)?.body.profile, 'other')
  })

  test('the next one issues while the first is away, and revokes what it has issued', async () => {
    await daemon.stop('SIGKILL')
    const ended = await Promise.all(Array.from({ length: 4 }, () => finalized()))
    assert.deepEqual(
      ended.map(({ order, backend }) => [order.json.status, backend]),
      ended.map(() => ['valid', 'external']),
    )
    const serial = await revoke((ended[0] as { order: Answer }).order)
    await until('its revocation at the CA', () => ca.revoked.includes(serial))
    const health = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
    assert.deepEqual(health.json.checks.ca_backend, {
      status: 'ok',
      backends: { internal: { status: 'error' }, external: { status: 'ok' } },
    })
  })

  test('the first one issues again when it is back', async () => {
    daemon = await startDaemon(files.config)
    await until('a certificate of the signer', async () => (await finalized()).backend === null)
  })

  test('the other way round: the signer issues where the CA is not available, and a probe brings the CA back', async () => {
    await service.stop()
    service = await startTestService({ fronts: 1, continueFrom: first, config: backends('external', 'internal') })
    assert.equal((await finalized()).backend, 'external')
    ca.behave('unavailable')
    for (let done = 0; done < 6; done++) {
      const { order, backend } = await finalized()
      assert.deepEqual([order.json.status, backend], ['valid', null])
    }
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    assert.match(text, /service_backend_failovers_total\{from="external",to="internal"\} [5-6]/)
    ca.behave('issue')
    await until('a certificate of the CA', async () => (await finalized()).backend === 'external')
  })

  test('what may have been issued stays where it is, and a refusal is final', async () => {
    for (const behaviour of ['lost answer', 'refuse'] as const) {
      ca.behave(behaviour)
      const { order, backend } = await finalized()
      assert.deepEqual([order.json.status, backend], ['invalid', undefined], behaviour)
    }
    ca.behave('issue')
  })
})
