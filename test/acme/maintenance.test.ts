/** Maintenance mode: what it refuses, what it leaves alone, and who notices when. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { csrFor, registeredClient, send, startResponder } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { operate } from '../support/operator.ts'
import { until } from '../support/until.ts'

describe('maintenance mode', () => {
  const { service, client } = acmeScene('acme')

  const health = async () => (await send({ method: 'GET', url: `${service.baseUrl}/healthz` })).json
  const metrics = async () => (await send({ method: 'GET', url: `${service.baseUrl}/metrics` })).text

  test('a service whose flag was never set is not in maintenance', async () => {
    assert.match(await operate(service, 'maintenance', 'status'), /^maintenance is off$/m)
    assert.equal((await health()).maintenance_mode, false)
    assert.match(await metrics(), /^service_maintenance_mode 0$/m)
  })

  test('orders that were begun go on, new ones are told to come back in 60 seconds', async (context) => {
    const responder = await startResponder(service.http01Port)
    context.after(() => responder.close())
    const begun = await client.newOrder(['begun.test'])

    assert.match(await operate(service, 'maintenance', 'on'), /^maintenance is on since 2/m)
    await until('it is noticed', async () => (await health()).maintenance_mode === true)
    assert.equal((await health()).status, 'ok')
    assert.match(await metrics(), /^service_maintenance_mode 1$/m)

    // All threads know: several connections meet several threads.
    const answers = await Promise.all(Array.from({ length: 12 }, () => client.newOrder(['later.test'])))
    for (const answer of answers) {
      assert.equal(answer.status, 503)
      assert.equal(answer.json.type, 'urn:ietf:params:acme:error:serverInternal')
      assert.equal(answer.headers['retry-after'], '60')
      assert.ok(answer.headers['replay-nonce'])
    }
    const identifier = { type: 'dns', value: 'later.test' }
    const newAuthz = await client.post(client.directory['newAuthz'] as string, { identifier })
    assert.deepEqual([newAuthz.status, newAuthz.headers['retry-after']], [503, '60'])

    await client.authorize(begun, responder)
    const finalized = await client.post(begun.json.finalize, { csr: await csrFor(['begun.test']) })
    assert.equal(finalized.status, 200, finalized.text)
    const order = await client.settled(String(begun.headers.location))
    assert.equal((await client.post(order.json.certificate)).status, 200)
    assert.equal((await registeredClient(service.directoryUrl)).kid.startsWith(service.baseUrl), true)
  })

  test('a refusal comes after the signature and uses up the nonce (§6.5)', async () => {
    const url = client.directory['newOrder'] as string
    const payload = { identifiers: [{ type: 'dns', value: 'resent.test' }] }
    const jws = await client.jws(url, { payload })
    const request = { url, headers: { 'Content-Type': 'application/jose+json' }, body: JSON.stringify(jws) }
    const refused = await send(request)
    assert.equal(refused.status, 503)
    const forged = { ...jws, signature: `${jws.signature.slice(0, -6)}AAAAAA` }
    assert.equal((await send({ ...request, body: JSON.stringify(forged) })).status, 403)

    await operate(service, 'maintenance', 'off')
    await until('it is noticed', async () => (await health()).maintenance_mode === false)
    const again = await send(request)
    assert.equal(again.json.type, 'urn:ietf:params:acme:error:badNonce', again.text)
    const nonce = String(refused.headers['replay-nonce'])
    assert.equal((await client.post(url, payload, { header: { nonce } })).status, 201)
  })
})
