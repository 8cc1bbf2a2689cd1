/** Rate limits over HTTP: what is counted for whom, what a refusal says, and what it does not use up. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  changeKey,
  createAcmeClient,
  csrFor,
  locationOf,
  newAccountKey,
  registeredClient,
  send,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { HOUR, limit } from '../support/rate-limits.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const AGREED = { termsOfServiceAgreed: true }

function assertLimited(answer: Answer, category: string): void {
  assert.equal(answer.status, 429, answer.text)
  assert.equal(answer.json.type, 'urn:ietf:params:acme:error:rateLimited')
  const retryAfter = Number(answer.headers['retry-after'])
  assert.ok(Number.isInteger(retryAfter) && retryAfter >= 1, String(retryAfter))
  assert.match(
    answer.json.detail,
    new RegExp(`rate limit ${category}: \\d+ requests in \\d+ seconds .*${retryAfter} seconds`),
  )
  assert.ok(answer.headers['replay-nonce'], 'a refusal carries a nonce like any other reply')
}

const nonceFrom = (service: TestService, address: string) =>
  send({ method: 'HEAD', url: `${service.baseUrl}/new-nonce`, headers: { 'X-Forwarded-For': address } })

// A changed limit counts anew, so the second finds nothing of the first.
for (const [backend, window_seconds] of [
  ['memory', HOUR],
  ['database', 2 * HOUR],
] as const) {
  describe(`rate limits, ${backend}`, () => {
    const { service, responder } = acmeScene('limits')
    before(async () => {
      await limit(
        service,
        {
          new_nonce: { requests: 40, window_seconds },
          new_order_per_identifier: { requests: 2, window_seconds },
          challenge_validation: { requests: 1, window_seconds },
          finalize: { requests: 3, window_seconds },
          key_change: { requests: 2, window_seconds: 24 * window_seconds },
          account_orders: { requests: 2, window_seconds },
          account_update: { requests: 2, window_seconds },
          revoke_cert: { requests: 2, window_seconds },
        },
        backend,
      )
    })

    /** A client of its own address, whose nonces come with its replies. */
    let clients = 0
    async function aClient(): Promise<AcmeClient> {
      const key = newAccountKey()
      const client = await createAcmeClient(service.directoryUrl, key)
      clients++
      let next = (await nonceFrom(service, `192.0.2.${clients}`)).headers['replay-nonce'] as string
      client.nonce = async () => next
      const post = client.post
      client.post = async (url, payload, parts) => {
        const answer = await post(url, payload, parts)
        next = String(answer.headers['replay-nonce'])
        return answer
      }
      assert.equal((await client.newAccount(AGREED)).status, 201)
      return client
    }

    test('all threads together let exactly the limit of an address through', async () => {
      const answers = await Promise.all(Array.from({ length: 100 }, () => nonceFrom(service, '198.51.100.1')))
      assert.equal(answers.filter(({ status }) => status === 200).length, 40)
      assert.equal(answers.filter(({ status }) => status === 429).length, 60)
    })

    test('a refusal names the limit and when to come back', async () => {
      for (let i = 0; i < 40; i++) await nonceFrom(service, '198.51.100.2')
      const refused = await send({
        method: 'GET',
        url: `${service.baseUrl}/new-nonce`,
        headers: { 'X-Forwarded-For': '198.51.100.2' },
      })
      assertLimited(refused, 'new_nonce')
      assert.match(refused.json.detail, /198\.51\.100\.2/)
      // One of 40 in an hour is earned back in 90 seconds.
      assert.ok(Number(refused.headers['retry-after']) <= window_seconds / 40)
    })

    test('addresses of one IPv6 /64 are one client, those of two are two', async () => {
      const answers = await Promise.all(
        Array.from({ length: 60 }, (_, i) => nonceFrom(service, `2001:db8:0:1::${i.toString(16)}`)),
      )
      assert.equal(answers.filter(({ status }) => status === 200).length, 40)
      assert.equal((await nonceFrom(service, '2001:db8:0:2::1')).status, 200)
    })

    /** Certificates for the same name, by an account each. */
    async function useUp(name: string): Promise<void> {
      for (let i = 0; i < 2; i++) await (await aClient()).obtain([name], responder)
    }

    test('an identifier is counted for all accounts together, and others are not touched by it', async () => {
      await useUp('counted.test')
      const client = await aClient()
      const refused = await client.newOrder(['other.test', 'COUNTED.test'])
      assertLimited(refused, 'new_order_per_identifier')
      assert.match(refused.json.detail, /dns counted\.test/)
      // The refused order has not been counted for its other name.
      await useUp('other.test')
      assertLimited(await client.newOrder(['other.test']), 'new_order_per_identifier')
    })

    test('orders alone do not count for an identifier: a stranger cannot use up its limit', async () => {
      const stranger = await aClient()
      for (let i = 0; i < 5; i++)
        assert.equal((await stranger.newOrder(['wanted.test', `${i}.wanted.test`])).status, 201)
      await useUp('wanted.test')
    })

    test('an order from before the limit was reached is refused at finalize, and stays ready', async () => {
      const client = await aClient()
      const order = await client.newOrder(['late.test'])
      await client.authorize(order, responder)
      await useUp('late.test')
      const refused = await client.post(order.json.finalize, { csr: await csrFor(['late.test']) })
      assertLimited(refused, 'new_order_per_identifier')
      assert.equal((await client.post(locationOf(order))).json.status, 'ready')
    })

    test('a request that does not prove itself uses up nobody’s limit but its address’s', async () => {
      const victim = await aClient()
      const forged = async (nonce: string) => {
        const jws = await victim.jws(victim.directory['newOrder'] as string, {
          payload: { identifiers: [{ type: 'dns', value: 'victim.test' }] },
          header: { nonce },
          key: newAccountKey(),
        })
        return send({
          url: victim.directory['newOrder'] as string,
          headers: { 'Content-Type': 'application/jose+json' },
          body: JSON.stringify(jws),
        })
      }
      for (let i = 0; i < 5; i++) assert.equal((await forged(await victim.nonce())).status, 403)
      assert.equal((await victim.newOrder(['victim.test'])).status, 201)
      assert.equal((await victim.newOrder(['victim.test'])).status, 201)
    })

    test('a replayed request is not counted a second time', async () => {
      const client = await aClient()
      const url = client.directory['newOrder'] as string
      const jws = await client.jws(url, { payload: { identifiers: [{ type: 'dns', value: 'replayed.test' }] } })
      const request = { url, headers: { 'Content-Type': 'application/jose+json' }, body: JSON.stringify(jws) }
      assert.equal((await send(request)).status, 201)
      const replay = await send(request)
      assert.equal(replay.json.type, 'urn:ietf:params:acme:error:badNonce')
      client.nonce = async () => String(replay.headers['replay-nonce'])
      assert.equal((await client.newOrder(['replayed.test'])).status, 201)
    })

    test('starting validations is counted for the account, polling is not', async () => {
      const client = await aClient()
      const order = await client.newOrder(['one.test', 'two.test'])
      const [first, second] = order.json.authorizations
      const challengeOf = async (url: string) => (await client.post(url)).json.challenges[0].url
      assert.equal((await client.post(await challengeOf(first), {})).status, 200)
      const waiting = await challengeOf(second)
      assertLimited(await client.post(waiting, {}), 'challenge_validation')
      for (let i = 0; i < 3; i++) assert.equal((await client.post(waiting)).status, 200)
    })

    test('finalize is counted for the account, whatever becomes of it', async () => {
      const client = await aClient()
      const { finalize } = (await client.newOrder(['finalize.test'])).json
      const csr = await csrFor(['finalize.test'])
      for (let i = 0; i < 3; i++) assert.equal((await client.post(finalize, { csr })).json.status, 403)
      assertLimited(await client.post(finalize, { csr }), 'finalize')
    })

    test('key changes are counted for the account; one that proves nothing is not (RFC 8555 §7.3.5)', async () => {
      const client = await aClient()
      const ofAnother = { ...client, key: newAccountKey() }
      assert.equal((await changeKey(ofAnother, newAccountKey())).status, 400)
      let key = client.key
      for (let i = 0; i < 2; i++) {
        const next = newAccountKey()
        const answer = await changeKey(client, next, { key })
        assert.equal(answer.status, 200, answer.text)
        key = next
      }
      assertLimited(await changeKey(client, newAccountKey(), { key }), 'key_change')
    })

    test('changes of contacts are counted for the account, its other requests are not (RFC 8555 §7.3.2)', async () => {
      const client = await aClient()
      const change = (i: number) => client.post(client.kid, { contact: [`mailto:${i}@example.com`] })
      for (let i = 0; i < 2; i++) assert.equal((await change(i)).status, 200)
      assertLimited(await change(2), 'account_update')
      assert.deepEqual((await client.post(client.kid)).json.contact, ['mailto:1@example.com'])
      const other = await aClient()
      assert.equal((await other.post(other.kid, { contact: [] })).status, 200)
      assert.equal((await client.post(client.kid, { status: 'deactivated' })).status, 200)
    })

    test('revocations by a key are counted for the address before the key is read, those by an account are not', async () => {
      const client = await aClient()
      const url = client.directory['revokeCert'] as string
      const payload = { certificate: 'AAAA' }
      const unread = () => client.post(url, payload, { header: { kid: undefined, jwk: { kty: 'none' } } })
      for (let i = 0; i < 2; i++) assert.equal((await unread()).json.type, 'urn:ietf:params:acme:error:badPublicKey')
      assertLimited(await unread(), 'revoke_cert')
      assertLimited(await client.post(url, payload, { withJwk: true }), 'revoke_cert')
      assert.equal((await client.post(url, payload)).status, 400)
    })

    test('pages of the list of orders are counted for the account, wherever it asks from', async () => {
      const client = await aClient()
      for (let i = 0; i < 2; i++) assert.equal((await client.post(`${client.kid}/orders`)).status, 200)
      assertLimited(await client.post(`${client.kid}/orders`), 'account_orders')
      const other = await aClient()
      assert.equal((await other.post(`${other.kid}/orders`)).status, 200)
    })
  })
}

describe('rate limits by address', () => {
  const { service } = acmeScene('limits')
  before(async () => {
    await limit(service, {
      new_account: { requests: 2, window_seconds: HOUR },
      new_order: { requests: 2, window_seconds: HOUR },
      challenge: { requests: 2, window_seconds: HOUR },
    })
  })

  test('new-account, new-order and challenge are counted, and a refusal does not use up the nonce', async () => {
    const client = await registeredClient(service.directoryUrl)
    for (let i = 0; i < 2; i++) assert.equal((await client.newOrder([`name${i}.test`])).status, 201)
    const url = client.directory['newOrder'] as string
    const nonce = await client.nonce()
    const payload = { identifiers: [{ type: 'dns', value: 'more.test' }] }
    assertLimited(await client.post(url, payload, { header: { nonce } }), 'new_order')
    // The same nonce serves another request.
    assert.equal((await client.post(client.kid, undefined, { header: { nonce } })).status, 200)

    // Pre-authorization makes a row for each request as well.
    const identifier = { type: 'dns', value: 'early.test' }
    assertLimited(await client.post(client.directory['newAuthz'] as string, { identifier }), 'new_order')

    assert.equal((await (await createAcmeClient(service.directoryUrl)).newAccount(AGREED)).status, 201)
    assertLimited(await (await createAcmeClient(service.directoryUrl)).newAccount(), 'new_account')

    const orders = await client.post(`${client.kid}/orders`)
    const order = await client.post(orders.json.orders[0])
    const challenge = (await client.post(order.json.authorizations[0])).json.challenges[0].url
    for (let i = 0; i < 2; i++) assert.equal((await client.post(challenge)).status, 200)
    assertLimited(await client.post(challenge), 'challenge')
  })

  test('a reload of security.rate_limits holds at once, and a changed limit counts anew', async () => {
    const client = await registeredClient(service.directoryUrl).catch((error: Error) => error)
    assert.ok(client instanceof Error, 'new-account is still at its limit')
    await limit(service, { new_account: { requests: 200, window_seconds: HOUR } })
    await until('the new limit is in force', async () => {
      return (await (await createAcmeClient(service.directoryUrl)).newAccount(AGREED)).status === 201
    })
  })

  test('the metrics count refusals by limit', async () => {
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    assert.match(text, /service_rate_limited_total\{category="new_order"\} [1-9]/)
  })
})
