/** The last days of an issuer: what it cannot issue any more is refused, and nobody is alarmed. */

import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { DAY_MS, makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import {
  closeConnections,
  csrFor,
  locationOf,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { startTestService, type TestService } from '../support/service.ts'

describe('an issuer that ends in a day', () => {
  let files: SignerFiles
  let daemon: Daemon
  let service: TestService
  let responder: Responder
  before(async () => {
    files = writeSignerFiles({ old: makeAuthority('P-256', { daysAhead: 1 }) })
    daemon = await startDaemon(files.config)
    const signer = { socket: files.socket, secret_file: path.join(files.folder, 'secret') }
    const quotas = { enabled: true, max_certificates_per_account_per_day: 1 }
    service = await startTestService({ config: { server: { workers: 1 }, ca: { signer }, quotas } })
    responder = await startResponder(service.http01Port)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  })

  test('refuses a start behind its end; the order stays ready, nothing is counted, and there is no alarm', async () => {
    const client = await registeredClient(service.directoryUrl)
    const notBefore = new Date(Date.now() + 1.5 * DAY_MS).toISOString()
    const order = await client.newOrder(['late.test'], { notBefore })
    assert.equal(order.status, 201, order.text)
    await client.authorize(order, responder)
    const refusal = await client.post(order.json.finalize, { csr: await csrFor(['late.test']) })
    assert.equal(refusal.status, 400, refusal.text)
    assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:malformed')
    assert.match(refusal.json.detail, /notBefore/)
    assert.equal((await client.post(locationOf(order))).json.status, 'ready')
    assert.match((await send({ method: 'GET', url: `${service.baseUrl}/metrics` })).text, /^service_alarms_total 0$/m)
    // The day's one certificate is still to be had.
    await client.obtain(['now.test'], responder)
  })
})
