/** Failover from another ACME service: what was published for its challenges is withdrawn when the next backend takes over. */

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  closeConnections,
  csrFor,
  locationOf,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import { withQuery } from '../support/revoked.ts'
import { problem, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const FIRST = 'first.test'

describe('an upstream ACME service that goes away while it validates', () => {
  let folder: string
  let upstream: ScriptedUpstream
  let service: TestService
  let responder: Responder
  let client: AcmeClient

  const published = () => readdirSync(path.join(folder, '.well-known', 'acme-challenge'))

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-failover-proxy-'))
    mkdirSync(path.join(folder, '.well-known', 'acme-challenge'), { recursive: true })
    upstream = await startScriptedUpstream(FIRST)
    service = await startTestService({
      fronts: 1,
      config: {
        order: { finalize_wait_ms: 500 },
        ca: {
          backend: 'failover',
          failover: { backends: ['acme_proxy', 'internal'], probe_seconds: 3_600 },
          circuit_breaker_failure_threshold: 1,
          circuit_breaker_recovery_timeout: 3_600,
          acme_proxy: {
            directory_url: upstream.directoryUrl,
            email: 'pki@chained.test',
            storage_path: path.join(folder, 'storage'),
            challenge_type: 'http-01',
            challenge_handler: 'file_http',
            challenge_handler_config: { webroot: folder },
            order_ready_timeout: 280,
          },
        },
      },
    })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    await upstream?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function finalized(name: string): Promise<string> {
    const order = await client.newOrder([name])
    await client.authorize(order, responder)
    const reply = await client.post(order.json.finalize, { csr: await csrFor([name]) })
    assert.equal(reply.status, 200, reply.text)
    return locationOf(order)
  }

  test('its orders go on with the next backend, and no response stays published', async () => {
    upstream.script = ({ path: to }, { body }) =>
      to === '/order' ? { body: { ...(body as object), status: 'pending' } } : undefined
    const first = await finalized(FIRST)
    await until('a response', () => published().length === 1)

    upstream.script = () => problem(503, 'serverInternal')
    const second = await finalized('second.test')
    for (const url of [second, first]) assert.equal((await client.settled(url)).json.status, 'valid')
    assert.deepEqual(published(), [])
    assert.equal(upstream.count('/finalize'), 0)
    const backends = await withQuery(service.database.connection, (run) => run('SELECT backend FROM certificates'))
    assert.deepEqual(backends, [{ backend: null }, { backend: null }])
  })
})
