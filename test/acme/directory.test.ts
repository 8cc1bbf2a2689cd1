/** GET directory and new-nonce (RFC 8555 §7.1.1, §7.2), and what requests leave in the log of a service without a proxy. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Answer, createAcmeClient, newAccountKey, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'

describe('directory and nonces', () => {
  const { service } = acmeScene('acme')

  test('the directory lists absolute URLs below external_url (§7.1.1)', async () => {
    const response = await fetch(service.directoryUrl)
    assert.equal(response.status, 200)
    const directory = (await response.json()) as Record<string, string>
    for (const resource of ['newNonce', 'newAccount', 'newOrder', 'newAuthz', 'revokeCert', 'keyChange'])
      assert.ok(directory[resource]?.startsWith(`${service.baseUrl}/`), resource)
  })

  test('HEAD new-nonce is 200 and GET new-nonce is 204, both with a nonce and no-store (§7.2)', async () => {
    const statuses = { HEAD: 200, GET: 204 }
    for (const [method, status] of Object.entries(statuses)) {
      const response = await fetch(`${service.baseUrl}/new-nonce`, { method })
      assert.equal(response.status, status)
      assert.match(response.headers.get('replay-nonce') ?? '', /^[A-Za-z0-9_-]{22}$/)
      assert.equal(response.headers.get('cache-control'), 'no-store')
    }
  })

  test('directory and new-nonce answer POST-as-GET as they answer GET (§6.3)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const directory = await client.post(service.directoryUrl)
    assert.equal(directory.status, 200)
    assert.deepEqual(directory.json, client.directory)
    const nonce = await client.post(client.directory['newNonce'] as string)
    assert.equal(nonce.status, 204)
    assert.match(String(nonce.headers['replay-nonce']), /^[A-Za-z0-9_-]{22}$/)
  })

  test('forwarded headers of strangers change nothing', async () => {
    const headers = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'https', 'X-Request-ID': 'stranger' }
    const answer = await send({ method: 'GET', url: service.directoryUrl, headers })
    assert.equal(answer.headers['strict-transport-security'], undefined)
    const id = answer.headers['x-request-id']
    const line = await service.untilLogged('the request', (one) => one['requestId'] === id && one.message === 'request')
    assert.equal(line['address'], '127.0.0.1')
  })

  test('the line of a request names its account and its order, once a signature has proved whose it is', async () => {
    const named = async ({ headers }: Answer) => {
      const id = headers['x-request-id']
      const line = await service.untilLogged('a request', (one) => one['requestId'] === id && one.message === 'request')
      return [line['accountId'], line['orderId']]
    }
    const client = await createAcmeClient(service.directoryUrl)
    const joined = await client.newAccount()
    const accountId = client.kid.slice(-36)
    const order = await client.newOrder(['lines.test'])
    const orderUrl = String(order.headers.location)
    const orderId = orderUrl.slice(-36)
    assert.deepEqual(await named(joined), [accountId, undefined])
    assert.deepEqual(await named(order), [accountId, orderId])
    assert.deepEqual(await named(await client.post(orderUrl)), [accountId, orderId])
    const refused = await client.post(order.json.finalize, { csr: 'AA' })
    assert.deepEqual([refused.status, await named(refused)], [403, [accountId, orderId]])
    assert.deepEqual(await named(await client.post(order.json.authorizations[0])), [accountId, undefined])
    const forged = await client.post(orderUrl, undefined, { key: newAccountKey() })
    assert.deepEqual([forged.status, await named(forged)], [403, [undefined, undefined]])
  })

  test('HEAD answers as GET does, without the body', async () => {
    const [get, head] = await Promise.all([
      send({ method: 'GET', url: service.directoryUrl }),
      send({ method: 'HEAD', url: service.directoryUrl }),
    ])
    assert.equal(head.status, 200)
    assert.equal(head.body.length, 0)
    assert.equal(head.headers['content-length'], String(get.body.length))
  })
})
