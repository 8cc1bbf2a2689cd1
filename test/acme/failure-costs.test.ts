/** What an address may make the server verify in vain: beyond it, no signature from there is looked at. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  type Answer,
  base64url,
  closeConnections,
  newAccountKey,
  type Responder,
  registeredClient,
  send,
  signedJws,
  startResponder,
  type Transport,
} from '../support/acme-client.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Several times what an address has. */
const FAILURES = 400
const CONNECTIONS = 8

describe('an address whose requests prove nothing', () => {
  let service: TestService
  let responder: Responder
  before(async () => {
    service = await startTestService({
      config: {
        security: { rate_limits: { enabled: false } },
        // One thread, since each has budgets of its own; a busy machine must not refuse for its delay.
        server: { workers: 1, overload: { enabled: true, target_delay_ms: 30_000 } },
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

  const from =
    (address: string): Transport =>
    (request) =>
      send({ ...request, headers: { ...request.headers, 'X-Forwarded-For': address } })

  /** Until one is not looked at any more. */
  async function requireHeldBack(failing: () => Promise<Answer>): Promise<void> {
    let failed = 0
    const asking = Array.from({ length: CONNECTIONS }, async () => {
      while (failed < FAILURES) {
        const { status, json } = await failing()
        if (status === 429) return String(json.detail)
        assert.equal(status, 403)
        failed++
      }
      return 'none was refused'
    })
    assert.match(await Promise.race(asking), /requests from .* have failed/)
    await Promise.all(asking)
  }

  test('is charged for the inner signatures of key changes (RFC 8555 §7.3.5)', async () => {
    const client = await registeredClient(service.directoryUrl, undefined, from('192.0.2.1'))
    const url = client.directory['keyChange'] as string
    const next = newAccountKey()
    const inner = signedJws(
      next,
      { alg: next.alg, url, jwk: next.jwk },
      {
        payload: { account: client.kid, oldKey: client.key.jwk },
        signature: (good) => Buffer.alloc(good.length, 7),
      },
    )
    await requireHeldBack(() => client.post(url, inner))
  })

  test('is charged for revocations that it has no authority for (RFC 8555 §7.6)', async () => {
    const owner = await registeredClient(service.directoryUrl, undefined, from('192.0.2.3'))
    const { der } = await owner.obtain(['revoked-by-a-stranger.test'], responder)
    const client = await registeredClient(service.directoryUrl, undefined, from('192.0.2.2'))
    const payload = { certificate: base64url(der) }
    const url = client.directory['revokeCert'] as string
    await requireHeldBack(() => client.post(url, payload, { withJwk: true }))
  })
})
