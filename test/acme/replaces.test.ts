/** Replacement orders (RFC 9773 §5; docs/decisions/renewal-information.md), and equal orders (docs/decisions/equal-orders.md). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  base64url,
  closeConnections,
  JOSE,
  locationOf,
  newAccountKey,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { age } from '../support/aged-certificate.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

/** So few that the orders of this file run into it, where they are not exempt. */
const NEW_ORDERS = 3

describe('replaces', () => {
  let service: TestService
  let responder: Responder
  before(async () => {
    service = await sharedService('acme')
    responder = await startResponder(service.http01Port)
  })
  after(async () => {
    closeConnections()
    await responder.close()
  })

  async function withCertificate(...names: string[]): Promise<{ client: AcmeClient; certId: string }> {
    const client = await registeredClient(service.directoryUrl)
    return { client, certId: certIdOf((await client.obtain(names, responder)).der) }
  }

  function requireProblem(answer: Answer, status: number, type: string): void {
    assert.equal(`${answer.status} ${answer.json.type}`, `${status} ${PROBLEM}${type}`, answer.text)
  }

  test('is reflected in the order, each time it is read (§5)', async () => {
    const { client, certId } = await withCertificate('reflected.test')
    const order = await client.newOrder(['reflected.test'], { replaces: certId })
    assert.equal(order.status, 201, order.text)
    assert.equal(order.json.replaces, certId)
    assert.equal((await client.post(locationOf(order))).json.replaces, certId)
    assert.equal('replaces' in (await client.newOrder(['unrelated.test'])).json, false)
  })

  test('needs one identifier in common, not all of them (§5)', async () => {
    const { client, certId } = await withCertificate('one.test', 'two.test')
    requireProblem(await client.newOrder(['three.test'], { replaces: certId }), 400, 'malformed')
    const order = await client.newOrder(['three.test', 'two.test'], { replaces: certId })
    assert.equal(order.status, 201, order.text)
  })

  test('of a certificate that is replaced already is 409 alreadyReplaced, before and after the issuance (§5)', async () => {
    const { client, certId } = await withCertificate('once.test')
    const order = await client.newOrder(['once.test'], { replaces: certId })
    const other = () => client.newOrder(['once.test', 'www.once.test'], { replaces: certId })
    requireProblem(await other(), 409, 'alreadyReplaced')
    const renewed = await client.obtain(['once.test'], responder, { order: { replaces: certId } })
    assert.equal(renewed.orderUrl, locationOf(order), 'the same request is the same order')
    requireProblem(await other(), 409, 'alreadyReplaced')
    requireProblem(await client.newOrder(['once.test'], { replaces: certId }), 409, 'alreadyReplaced')
    const next = await client.newOrder(['once.test'], { replaces: certIdOf(renewed.der) })
    assert.equal(next.status, 201, 'the replacement can be replaced')
  })

  test('is possible again when the order that replaced it became invalid (§5)', async () => {
    const { client, certId } = await withCertificate('again.test')
    const failed = await client.newOrder(['again.test', 'fails.test'], { replaces: certId })
    for (const url of failed.json.authorizations) {
      const { json } = await client.post(url)
      if (json.identifier.value === 'fails.test') await client.post(url, { status: 'deactivated' })
    }
    assert.equal((await client.post(locationOf(failed))).json.status, 'invalid')
    const second = await client.newOrder(['again.test'], { replaces: certId })
    assert.equal(second.status, 201, second.text)
  })

  test("of another account's certificate is unauthorized (§5)", async () => {
    const { certId } = await withCertificate('hers.test')
    const other = await registeredClient(service.directoryUrl)
    requireProblem(await other.newOrder(['hers.test'], { replaces: certId }), 403, 'unauthorized')
  })

  test('that names no certificate of this server is 404 malformed', async () => {
    const { client, certId } = await withCertificate('unknown.test')
    const unknown = `${certId.split('.')[0]}.AQ`
    requireProblem(await client.newOrder(['unknown.test'], { replaces: unknown }), 404, 'malformed')
  })

  test('that is no certID is malformed, of whatever type', async () => {
    const { client, certId } = await withCertificate('form.test')
    for (const replaces of [`${certId}=`, `${certId}.AQ`, 'f00', 7, [certId], {}])
      requireProblem(await client.newOrder(['form.test'], { replaces }), 400, 'malformed')
  })

  test('of many requests at once for different orders one is accepted', async () => {
    const { client, certId } = await withCertificate('race.test')
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => client.newOrder(['race.test', `race-${i}.test`], { replaces: certId })),
    )
    const statuses = answers.map(({ status }) => status).sort()
    assert.deepEqual(statuses, [201, ...Array.from({ length: 7 }, () => 409)])
  })

  test('the same new-order sent many times at once is one order, 201 each time', async () => {
    const client = await registeredClient(service.directoryUrl)
    const names = ['equal.test', 'also-equal.test']
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, i) => client.newOrder(i % 2 ? names : names.toReversed())),
    )
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201])
    assert.equal(new Set(answers.map(locationOf)).size, 1)
    const orders = (await client.post((await client.post(client.kid)).json.orders)).json.orders
    assert.deepEqual(orders, [locationOf(answers[0] as Answer)])
    const metrics = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    assert.match(metrics.text, /^service_orders_created_total \d+$/m)
  })
})

describe('limits of new orders', () => {
  let service: TestService
  let responder: Responder
  let addresses = 0
  before(async () => {
    const limit = { requests: NEW_ORDERS, window_seconds: 3600 }
    const rate_limits = { enabled: true, new_order: limit, new_order_per_identifier: limit }
    service = await startTestService({
      config: {
        ari: { enabled: true },
        security: { rate_limits },
        // The last hop of X-Forwarded-For is the client.
        proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
      },
    })
    responder = await startResponder(service.http01Port)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
  })

  /** Asks for its orders from an address of its own. */
  async function aClient(): Promise<AcmeClient> {
    const client = await registeredClient(service.directoryUrl)
    const address = `192.0.2.${++addresses}`
    const url = client.directory['newOrder'] as string
    client.newOrder = async (names, more = {}) => {
      const payload = { identifiers: names.map((value) => ({ type: 'dns', value })), ...more }
      const body = JSON.stringify(await client.jws(url, { payload }))
      return send({ url, headers: { ...JOSE, 'X-Forwarded-For': address }, body })
    }
    return client
  }

  async function obtained(client: AcmeClient, name: string, more: object = {}): Promise<Buffer> {
    return (await client.obtain([name], responder, { order: more })).der
  }

  async function useUpAddress(client: AcmeClient): Promise<void> {
    for (let i = 0; i < NEW_ORDERS; i++) await client.newOrder([`filling-${addresses}-${i}.test`])
    assert.equal((await client.newOrder(['plain.test'])).status, 429)
  }

  test('do not count the renewal of a certificate whose renewal window is open, once (RFC 9773 §5)', async () => {
    const client = await aClient()
    const der = await obtained(client, 'due.test')
    await age(service, der)
    await useUpAddress(client)
    const renewed = await client.newOrder(['due.test'], { replaces: certIdOf(der) })
    assert.equal(renewed.status, 201, renewed.text)
    // One certificate is not leave for any number of orders that come to nothing.
    for (const url of renewed.json.authorizations) await client.post(url, { status: 'deactivated' })
    assert.equal((await client.post(locationOf(renewed))).json.status, 'invalid')
    assert.equal((await client.newOrder(['due.test'], { replaces: certIdOf(der) })).status, 429)
  })

  test('do not count its names when the certificate is issued', async () => {
    const client = await aClient()
    const der = await obtained(client, 'names.test')
    for (let i = 1; i < NEW_ORDERS; i++) await obtained(await aClient(), 'names.test')
    assert.equal((await (await aClient()).newOrder(['names.test'])).status, 429, 'the name has nothing left')
    await age(service, der)
    await obtained(client, 'names.test', { replaces: certIdOf(der) })
  })

  test('count a chain of replacements whose windows are not open, and certify it no further', async () => {
    const name = 'chain.test'
    const client = await aClient()
    let der = await obtained(client, name)
    for (let i = 1; i < NEW_ORDERS; i++) der = await obtained(client, name, { replaces: certIdOf(der) })
    const one = await client.newOrder([name], { replaces: certIdOf(der) })
    assert.equal(one.status, 429, 'the address has nothing left, nor has the name')
  })

  test('count the replacement of a certificate that its subscriber revoked, or asked to end at once', async () => {
    const client = await aClient()
    const revoked = await obtained(client, 'revoked.test')
    const payload = { certificate: base64url(revoked) }
    assert.equal((await client.post(client.directory['revokeCert'] as string, payload)).status, 200)
    const notAfter = `${new Date(Date.now() + 600_000).toISOString().slice(0, 19)}Z`
    const brief = await obtained(client, 'brief.test', { notAfter })
    await useUpAddress(client)
    for (const [name, der] of Object.entries({ 'revoked.test': revoked, 'brief.test': brief }))
      assert.equal((await client.newOrder([name], { replaces: certIdOf(der) })).status, 429, name)
  })

  test('count an order that names more than the certificate it replaces', async () => {
    const client = await aClient()
    const der = await obtained(client, 'alone.test')
    await age(service, der)
    await useUpAddress(client)
    const more = await client.newOrder(['alone.test', 'stranger.test'], { replaces: certIdOf(der) })
    assert.equal(more.status, 429, more.text)
  })

  test('are no wider for who writes "replaces": as many signatures are looked at, and no more', async () => {
    const client = await aClient()
    await useUpAddress(client)
    const url = client.directory['newOrder'] as string
    const forged = async () => {
      const payload = { identifiers: [], replaces: 'AQ.AQ' }
      const jws = await client.jws(url, { payload, key: newAccountKey() })
      return send({
        url,
        headers: { ...JOSE, 'X-Forwarded-For': `192.0.2.${addresses}` },
        body: JSON.stringify(jws),
      })
    }
    const statuses: number[] = []
    for (let i = 0; i < NEW_ORDERS + 2; i++) statuses.push((await forged()).status)
    assert.deepEqual(statuses, [...Array.from({ length: NEW_ORDERS }, () => 403), 429, 429])
  })
})
