/** The operator's stop switch and the circuit breaker around the CA: orders stay ready, and clients learn when to come back. */

import assert from 'node:assert/strict'
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
import { operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'
import { startRunningClock, until } from '../support/until.ts'

/** As docs/operations/deploy.md promises. */
const SWITCH_MS = 2_000

/** The second order comes within this of the failure of the first. */
const RECOVERY_SECONDS = 8
const RECOVERED_MS = 120_000

async function isWithin(withinMs: number, isSo: () => Promise<boolean>): Promise<boolean> {
  const ranMs = startRunningClock()
  while (!(await isSo())) {
    if (ranMs() >= withinMs) return false
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return true
}

describe('the stop switch', () => {
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  before(async () => {
    service = await sharedService('acme')
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
  })

  const signing = (action: string) => operate(service, 'signing', action)

  const health = async () =>
    (await fetch(`${service.baseUrl}/healthz`)).json() as Promise<{
      status: string
      checks: { ca_backend: { status: string } }
    }>

  const isStopped = async () => (await health()).checks.ca_backend.status === 'stopped'
  /** A machine that is busy with others may take longer than promised; a service that looks too rarely does each time. */
  async function switched(to: 'stop' | 'resume'): Promise<string> {
    for (let tries = 1; tries <= 3; tries++) {
      const said = await signing(to)
      if (await isWithin(SWITCH_MS, async () => (await isStopped()) === (to === 'stop'))) return said
      await signing(to === 'stop' ? 'resume' : 'stop')
      await until('it is as before', async () => (await isStopped()) !== (to === 'stop'))
    }
    assert.fail(`never within ${SWITCH_MS} ms`)
  }

  test('stops finalize within two seconds; its order stays ready, and the certificate comes when signing continues', async () => {
    const order = await client.newOrder(['stopped.test'])
    await client.authorize(order, responder)
    const csr = await csrFor(['stopped.test'])
    assert.match(await switched('stop'), /signing is stopped since .*\n.*finalize answers 503/)

    const refused = await client.post(order.json.finalize, { csr })
    assert.equal(refused.status, 503)
    assert.equal(refused.headers['retry-after'], '60')
    assert.match(refused.json.detail ?? '', /stopped by the operator.*stays ready/)
    assert.equal((await client.post(locationOf(order))).json.status, 'ready')

    assert.equal((await health()).status, 'degraded')
    assert.equal((await fetch(`${service.baseUrl}/readyz`)).status, 200, 'it still takes requests')
    assert.match(await signing('status'), /^signing is stopped/)

    assert.match(await switched('resume'), /^signing is not stopped/)
    assert.equal((await client.post(order.json.finalize, { csr })).status, 200)
    assert.equal((await client.post(locationOf(order))).json.status, 'valid')
  })
})

describe('the circuit breaker around the CA', () => {
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  before(async () => {
    service = await startTestService({
      config: {
        // Each thread has a breaker of its own.
        server: { workers: 1 },
        ca: {
          circuit_breaker_failure_threshold: 1,
          circuit_breaker_recovery_timeout: RECOVERY_SECONDS,
          signer: { timeout_seconds: 1 },
        },
        order: { finalize_wait_ms: 500 },
      },
    })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
  })

  const pause = (signal: 'SIGSTOP' | 'SIGCONT') => process.kill(service.signerPid(), signal)

  test('is open after a failure: the next order stays ready, with Retry-After, and both get their certificates', async () => {
    const [first, second] = [await client.newOrder(['first.test']), await client.newOrder(['second.test'])]
    await client.authorize(first, responder)
    await client.authorize(second, responder)

    const csr = await csrFor(['second.test'])
    pause('SIGSTOP')
    try {
      const hanging = await client.post(first.json.finalize, { csr: await csrFor(['first.test']) })
      assert.equal(hanging.json.status, 'processing')
      await service.waitForLog('the CA backend failed again and again; it is left alone for a while')
      const refused = await client.post(second.json.finalize, { csr })
      assert.equal(refused.status, 503)
      const retryAfter = Number(refused.headers['retry-after'])
      assert.ok(retryAfter >= 1 && retryAfter <= RECOVERY_SECONDS, String(retryAfter))
      assert.equal((await client.post(locationOf(second))).json.status, 'ready')
    } finally {
      pause('SIGCONT')
    }
    const isFinalized = async () => (await client.post(second.json.finalize, { csr })).status === 200
    await until('the second goes on', isFinalized, RECOVERED_MS)
    const isValid = async () => (await client.post(locationOf(first))).json.status === 'valid'
    await until('the first is valid', isValid, RECOVERED_MS)
  })
})
