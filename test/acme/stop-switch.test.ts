/** The operator's stop switch: orders stay ready, and clients learn when to come back. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { csrFor, locationOf } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { operate } from '../support/operator.ts'
import { startRunningClock, until } from '../support/until.ts'

/** As docs/operations/deploy.md promises. */
const SWITCH_MS = 2_000

async function isWithin(withinMs: number, isSo: () => Promise<boolean>): Promise<boolean> {
  const ranMs = startRunningClock()
  while (!(await isSo())) {
    if (ranMs() >= withinMs) return false
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return true
}

describe('the stop switch', () => {
  const { service, responder, client } = acmeScene('acme')

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
