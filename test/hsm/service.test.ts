/**
 * A whole service with `ca.backend: hsm`: certificates from the token, readiness that follows the token, and a library that
 * crashes the signer under load.
 */

import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { acmeScene } from '../support/acme-scene.ts'
import { checkBooks } from '../support/books.ts'
import { assertNoComplaints, startCrowd } from '../support/clients/crowd.ts'
import { type FaultyLibrary, PIN } from '../support/hosts/softhsm.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { type ServiceToken, serviceToken } from './support.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requireCommand('g++'), requirePackage('graphene-pk11'))

const BOUND_MS = 120_000
const CRASHES = 3

describe('a service whose key is in a token', NEEDS, () => {
  let token: ServiceToken
  let faults: FaultyLibrary
  const { service } = acmeScene(async () => {
    token = await serviceToken()
    ;({ faults } = token)
    const hsm = { ...token.hsm, serial_source: 'database' }
    return startTestService({ fronts: 1, config: { ca: { backend: 'hsm', signer: { timeout_seconds: 2 }, hsm } } })
  })
  after(() => token.remove())

  const get = async (place: string) => {
    const response = await fetch(`${service.baseUrl}${place}`)
    return { status: response.status, body: (await response.json()) as Record<string, never> }
  }

  const untilReady = (status: number) =>
    until(`/readyz answers ${status}`, async () => (await get('/readyz')).status === status)

  test('shows the token in its health', async () => {
    const { status, body } = await get('/healthz')
    assert.equal(status, 200)
    const { ca_backend: backend } = body['checks'] as unknown as {
      ca_backend: { status: string; tokens: { status: string }[] }
    }
    assert.equal(backend.status, 'ok')
    assert.deepEqual(
      backend.tokens.map((token) => token.status),
      ['ready'],
    )
  })

  test('is not ready while the token is away, and ready again when it is back, in the same processes', async () => {
    const pid = service.signerPid()
    faults.set('removed')
    await untilReady(503)
    assert.equal((await get('/readyz')).body['reason'], 'CA backend unavailable')
    // A signature can fail a moment before the token is known to be away.
    const isSaid = async () =>
      /"status":"error","tokens":\[.*"status":"away"/.test(JSON.stringify((await get('/healthz')).body))
    await until('/healthz says that the token is away', isSaid)
    assert.equal((await get('/livez')).status, 200)
    faults.clear('removed')
    await untilReady(200)
    assert.equal(service.signerPid(), pid)
  })

  test("is not ready before a client asks, when the token's files are gone and its sessions stay open", async () => {
    const elsewhere = `${token.tokenFolder}-elsewhere`
    await untilReady(200)
    renameSync(token.tokenFolder, elsewhere)
    await untilReady(503)
    renameSync(elsewhere, token.tokenFolder)
    await untilReady(200)
  })

  test('whose library crashes under load goes on, starts the signer again and completes every order', async () => {
    const { directoryUrl, http01Port } = service
    const crowd = await startCrowd({ directoryUrl, http01Port, accounts: 4, ordersAtOnce: 12, timeoutMs: 300_000 })
    try {
      for (let crash = 0; crash < CRASHES; crash++) {
        await sleep(700)
        const pid = service.signerPid()
        faults.set('crash')
        await until('a new signer is ready', () => service.signerPid() !== pid)
      }
      await crowd.finish()
      assertNoComplaints(crowd)
      const { connection } = service.database
      const books = await checkBooks({ connection, folder: service.folder, held: crowd.held, boundMs: BOUND_MS })
      assert.equal(books.certificates, crowd.held.length)
      assert.equal(service.process.exitCode, null)
    } finally {
      await crowd.close()
    }
  })

  test('leaves a signer alone that a token has refused, and says so', async () => {
    faults.set('last-try')
    process.kill(service.signerPid(), 'SIGKILL')
    const { reason } = await service.waitForLog('the signer is not started again', BOUND_MS)
    assert.match(String(reason), /one attempt left/)
    await untilReady(503)
    const logins = faults.logins()
    await sleep(1000)
    assert.equal(faults.logins(), logins)
    assert.doesNotMatch(JSON.stringify(service.log), new RegExp(PIN))
  })
})
