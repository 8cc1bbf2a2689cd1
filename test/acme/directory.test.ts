/** GET directory and new-nonce (RFC 8555 §7.1.1, §7.2). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { closeConnections, registeredClient } from '../support/acme-client.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Nonces are used within this, also when the machine stands still for a moment between the two. */
const MAX_AGE_SECONDS = 5

describe('directory and nonces', () => {
  let service: TestService
  before(async () => {
    service = await startTestService({ config: { nonce: { expiry_seconds: 3600, max_age_seconds: MAX_AGE_SECONDS } } })
  })
  after(() => service.dispose())

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

  test('a nonce that has expired is a badNonce, and the nonce of the refusal serves the next try (§6.5)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const old = await client.nonce()
    await sleep(MAX_AGE_SECONDS * 1000 + 200)
    const refused = await client.post(client.kid, undefined, { header: { nonce: old } })
    assert.equal(`${refused.status} ${refused.json.type}`, '400 urn:ietf:params:acme:error:badNonce')
    const nonce = refused.headers['replay-nonce']
    assert.equal((await client.post(client.kid, undefined, { header: { nonce } })).status, 200)
    closeConnections()
  })

  test('a nonce of before a restart is a badNonce (§6.5)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const old = await client.nonce()
    closeConnections()
    await service.stop()
    const again = await startTestService({ fronts: 1, continueFrom: service })
    try {
      const refused = await client.post(client.kid, undefined, { header: { nonce: old } })
      assert.equal(`${refused.status} ${refused.json.type}`, '400 urn:ietf:params:acme:error:badNonce')
      assert.equal((await client.post(client.kid)).status, 200, 'the account is still there')
      closeConnections()
      assert.equal(await again.stop(), 0)
    } finally {
      await again.dispose()
    }
  })

  test('SIGTERM ends the service with exit code 0', async () => {
    assert.equal(await service.stop(), 0)
  })
})
