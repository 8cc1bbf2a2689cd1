/** Replacement orders (RFC 9773 §5; docs/decisions/renewal-information.md), and equal orders (docs/decisions/equal-orders.md). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AcmeClient, type Answer, locationOf, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { certIdOf } from '../support/certificate-id.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

describe('replaces', () => {
  const { service, responder, database } = acmeScene('acme')

  async function withCertificate(...names: string[]): Promise<{ client: AcmeClient; certId: string }> {
    const client = await registeredClient(service.directoryUrl)
    return { client, certId: certIdOf((await client.obtain(names, responder)).der) }
  }

  /** Clients order again without `replaces` where they know the answer by these words (docs/decisions/words-clients-act-on.md). */
  function requireProblem(answer: Answer, status: number, type: string): void {
    assert.equal(`${answer.status} ${answer.json.type}`, `${status} ${PROBLEM}${type}`, answer.text)
    assert.ok(answer.json.detail.startsWith("could not validate ARI 'replaces' field: "), answer.text)
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
    requireProblem(await client.newOrder(['three.test'], { replaces: certId }), 404, 'malformed')
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

  test("of another account's certificate is 404 malformed (§5)", async () => {
    const { certId } = await withCertificate('hers.test')
    const other = await registeredClient(service.directoryUrl)
    requireProblem(await other.newOrder(['hers.test'], { replaces: certId }), 404, 'malformed')
  })

  test('of an imported certificate without an account is left out of the order', async () => {
    const { client, certId } = await withCertificate('imported.test')
    await database.query(`UPDATE certificates SET account_id = NULL WHERE names = '{imported.test}'`)
    const order = await client.newOrder(['imported.test'], { replaces: certId })
    assert.equal(order.status, 201, order.text)
    assert.equal('replaces' in order.json, false)
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
