/** Orders, authorizations and challenges (RFC 8555 §7.1.2.1, §7.4, §7.5, §8). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type Answer,
  base64url,
  createAcmeClient,
  csrFor,
  JOSE,
  locationOf,
  registeredClient,
  send,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { until } from '../support/until.ts'

const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/
const PROBLEM = 'urn:ietf:params:acme:error:'

function assertNoNulls(value: unknown): void {
  assert.notEqual(value, null)
  if (typeof value === 'object') Object.values(value as object).forEach(assertNoNulls)
}

describe('orders and authorizations', () => {
  const { service, responder, client } = acmeScene('acme')

  async function httpChallenge(order: Answer): Promise<{ url: string; token: string; authorization: string }> {
    const [authorization] = order.json.authorizations
    const { challenges } = (await client.post(authorization)).json
    const found = challenges.find(({ type }: { type: string }) => type === 'http-01')
    return { ...found, authorization }
  }

  test('a new order is 201 with its URL and all its members (§7.1.3, §7.4)', async () => {
    const answer = await client.newOrder(['Shape.TEST', 'xn--bcher-kva.test'])
    assert.equal(answer.status, 201, answer.text)
    assert.match(locationOf(answer), new RegExp(`^${service.baseUrl}/order/[0-9a-f-]{36}$`))
    const { expires, authorizations, ...order } = answer.json
    assert.deepEqual(order, {
      status: 'pending',
      identifiers: [
        { type: 'dns', value: 'shape.test' },
        { type: 'dns', value: 'xn--bcher-kva.test' },
      ],
      finalize: `${locationOf(answer)}/finalize`,
    })
    assert.match(expires, TIMESTAMP)
    assert.ok(new Date(expires).getTime() > Date.now())
    assert.equal(authorizations.length, 2)
    assert.deepEqual((await client.post(locationOf(answer))).json, answer.json)
    assertNoNulls(answer.json)
  })

  test('a name in Unicode is malformed, and the detail names its A-labels (§7.1.4)', async () => {
    const answer = await client.newOrder(['bücher.test'])
    assert.deepEqual([answer.status, answer.json.type], [400, 'urn:ietf:params:acme:error:malformed'])
    assert.match(answer.json.detail, /xn--bcher-kva\.test/)
  })

  test('an authorization shows its identifier and what is offered (§7.1.4, §7.5)', async () => {
    const order = await client.newOrder(['offered.test'])
    const [url] = order.json.authorizations
    const answer = await client.post(url)
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['retry-after'], '1')
    const { expires, challenges, ...authorization } = answer.json
    assert.deepEqual(authorization, { status: 'pending', identifier: { type: 'dns', value: 'offered.test' } })
    assert.match(expires, TIMESTAMP)
    assert.deepEqual(
      challenges.map(({ type, status }: { type: string; status: string }) => ({ type, status })),
      [{ type: 'http-01', status: 'pending' }],
    )
    assert.match(challenges[0].token, /^[A-Za-z0-9_-]{43}$/)
    assertNoNulls(answer.json)
  })

  test('{} starts validation at once: it is processing or valid, then valid, then the order is ready (§7.1.6, §7.5.1)', async () => {
    const order = await client.newOrder(['validated.test'])
    const { url, token, authorization } = await httpChallenge(order)
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    const triggered = await client.post(url, {})
    assert.equal(triggered.status, 200)
    // Whether it is over within a tenth of a second the machine decides; test/acme/validation-state.test.ts holds it back.
    const isOver = triggered.json.status === 'valid'
    if (!isOver) assert.equal(triggered.json.status, 'processing')
    assert.equal(triggered.headers['retry-after'], isOver ? undefined : '1')
    assert.deepEqual(triggered.links['up'], [authorization])
    assert.deepEqual(triggered.links['index'], [service.directoryUrl])

    const settled = await client.settled(url)
    assert.equal(settled.json.status, 'valid')
    assert.match(settled.json.validated, TIMESTAMP)
    assert.equal('error' in settled.json, false)
    const shown = await client.post(authorization)
    assert.equal(shown.json.status, 'valid')
    assert.equal(shown.headers['retry-after'], undefined)
    assert.deepEqual(shown.json.challenges, [settled.json])
    assert.equal((await client.post(locationOf(order))).json.status, 'ready')
  })

  test('members of a challenge response that the type does not define are ignored (§7.5.1)', async () => {
    const order = await client.newOrder(['extra-members.test'])
    const { url, token } = await httpChallenge(order)
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    const keyAuthorization = 'as the drafts had it'
    assert.equal((await client.post(url, { keyAuthorization, type: 'http-01' })).status, 200)
    assert.equal((await client.settled(url)).json.status, 'valid')
  })

  test('a challenge triggered ten times is validated once (§7.5.1)', async () => {
    const order = await client.newOrder(['once.test'])
    const { url, token } = await httpChallenge(order)
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    const answers = await Promise.all(Array.from({ length: 10 }, () => client.post(url, {})))
    for (const { status, json } of answers) assert.match(`${status} ${json.status}`, /^200 (processing|valid)$/)
    await client.settled(url)
    assert.equal(responder.seen.get(token), 1)
    assert.equal((await client.post(url, {})).json.status, 'valid')
    assert.equal(responder.seen.get(token), 1)
  })

  const failures = [
    { name: 'missing.test', type: 'unauthorized', why: 'a server without the file' },
    { name: 'wrong.test', type: 'incorrectResponse', why: 'another key authorization', answer: 'wrong' },
    { name: 'a.closed.test', type: 'connection', why: 'a closed port' },
    { name: 'a.unresolved.test', type: 'dns', why: 'a name that cannot be resolved' },
  ]
  // Each for three seconds of attempts, so all at once.
  describe('of what fails', { concurrency: true }, () => {
    for (const { name, type, why, answer } of failures) {
      test(`${why} fails validation with ${type}, and the order with it (§7.1.6, §8.2)`, async () => {
        const order = await client.newOrder([name])
        const { url, token, authorization } = await httpChallenge(order)
        if (answer) responder.answer(token, `${token}.${answer}`)
        await client.post(url, {})
        const { json } = await client.settled(url)
        assert.equal(json.status, 'invalid')
        assert.equal(json.error.type, PROBLEM + type)
        assert.ok(json.error.detail.length > 10)
        assert.equal('validated' in json, false)
        assert.equal((await client.post(authorization)).json.status, 'invalid')
        assert.equal((await client.post(locationOf(order))).json.status, 'invalid')
      })
    }
  })

  test('a failed attempt is shown while the challenge is processing, and a later one may succeed (§8.2)', async () => {
    let names = 0
    // Where the machine stood still until the last attempt, another challenge is looked at.
    await until('an attempt that is shown before the last', async () => {
      const order = await client.newOrder([`late-${++names}.test`])
      const { url, token } = await httpChallenge(order)
      await client.post(url, {})
      const shown = await until('an error', async () => {
        const answer = await client.post(url)
        return answer.json.error !== undefined && answer
      })
      responder.answer(token, `${token}.${client.key.thumbprint}`)
      const settled = await client.settled(url)
      if (settled.json.status === 'invalid') return false
      assert.equal(shown.json.status, 'processing', shown.text)
      assert.equal(shown.json.error.type, `${PROBLEM}unauthorized`)
      assert.equal(shown.headers['retry-after'], '1')
      assert.equal(settled.json.status, 'valid')
      assert.equal('error' in settled.json, false)
      return true
    })
  })

  test('a valid authorization serves the next order of the account, which is ready at once (§7.1.3)', async () => {
    const first = await client.newOrder(['reused.test'])
    await client.authorize(first, responder)
    const second = await client.newOrder(['reused.test'])
    assert.equal(second.json.status, 'ready')
    assert.deepEqual(second.json.authorizations, first.json.authorizations)
    const other = await registeredClient(service.directoryUrl)
    assert.equal((await other.newOrder(['reused.test'])).json.status, 'pending')
  })

  test('a deactivated authorization makes its orders invalid and is not reused (§7.5.2)', async () => {
    const order = await client.newOrder(['dropped.test'])
    await client.authorize(order, responder)
    const [authorization] = order.json.authorizations
    const answer = await client.post(authorization, { status: 'deactivated' })
    assert.equal(answer.status, 200)
    assert.equal(answer.json.status, 'deactivated')
    assert.equal((await client.post(locationOf(order))).json.status, 'invalid')
    const next = await client.newOrder(['dropped.test'])
    assert.equal(next.json.status, 'pending')
    assert.notDeepEqual(next.json.authorizations, order.json.authorizations)
  })

  test('the deactivation of an authorization takes all open orders with it, and none that is valid (§7.5.2, §7.1.6)', async () => {
    const { order: issued, orderUrl, certificateUrl } = await client.obtain(['shared.test'], responder)
    const [authorization] = issued.json.authorizations
    const ready = await client.newOrder(['shared.test'])
    const pending = await client.newOrder(['shared.test', 'more.shared.test'])
    for (const order of [ready, pending]) assert.ok(order.json.authorizations.includes(authorization))
    assert.equal((await client.post(authorization, { status: 'deactivated' })).json.status, 'deactivated')

    for (const order of [ready, pending]) {
      assert.equal((await client.post(locationOf(order))).json.status, 'invalid')
      const refused = await client.post(order.json.finalize, { csr: await csrFor(['shared.test']) })
      assert.equal(`${refused.status} ${refused.json.type}`, `403 ${PROBLEM}orderNotReady`)
      assert.equal(locationOf(refused), locationOf(order))
    }
    assert.equal((await client.post(orderUrl)).json.status, 'valid')
    assert.equal((await client.post(certificateUrl)).status, 200)
    const again = await client.post(authorization, { status: 'deactivated' })
    assert.equal(
      `${again.status} ${again.json.detail}`,
      '400 an authorization that is deactivated cannot be deactivated',
    )
  })

  test('a challenge of a deactivated authorization is not validated any more (§7.5.2)', async () => {
    const order = await client.newOrder(['withdrawn.test'])
    const { url, token, authorization } = await httpChallenge(order)
    await client.post(authorization, { status: 'deactivated' })
    const answer = await client.post(url, {})
    assert.equal(answer.json.status, 'pending')
    assert.equal(responder.seen.get(token), undefined)
  })

  test('a pre-authorization is 201 with its URL and makes a later order ready (§7.4.1)', async () => {
    const made = await client.post(client.directory['newAuthz'] as string, {
      identifier: { type: 'dns', value: 'Early.test' },
    })
    assert.equal(made.status, 201, made.text)
    assert.deepEqual(made.json.identifier, { type: 'dns', value: 'early.test' })
    assert.equal(made.json.status, 'pending')
    assert.deepEqual((await client.post(locationOf(made))).json, made.json)
    await client.authorize({ ...made, json: { authorizations: [locationOf(made)] } }, responder)
    const order = await client.newOrder(['early.test'])
    assert.equal(order.json.status, 'ready')
    assert.deepEqual(order.json.authorizations, [locationOf(made)])
  })

  for (const [what, nothing] of [
    ['null', null],
    ['an empty string', ''], // LEClient's notBefore and notAfter
  ] as const) {
    test(`${what} stands for a member that is absent, in every payload and header`, async () => {
      const owner = await createAcmeClient(service.directoryUrl)
      const registered = await owner.post(
        String(owner.directory['newAccount']),
        {
          contact: nothing,
          termsOfServiceAgreed: nothing,
          onlyReturnExisting: nothing,
          externalAccountBinding: nothing,
        },
        { withJwk: true, header: { kid: nothing, crit: nothing, b64: nothing } },
      )
      assert.equal(registered.status, 201, registered.text)
      owner.kid = locationOf(registered)
      assert.equal((await owner.post(owner.kid, { contact: nothing, status: nothing })).status, 200)
      const dates = { notBefore: nothing, notAfter: nothing }
      const order = await owner.newOrder(['nothing.test'], { ...dates, profile: nothing, replaces: nothing })
      assert.equal(order.status, 201, order.text)
      for (const member of ['notBefore', 'notAfter', 'replaces']) assert.ok(!(member in order.json))
      const url = locationOf(order)
      const jws = await owner.jws(url, { header: { jwk: nothing } })
      const body = JSON.stringify({ header: nothing, signatures: nothing, ...jws })
      assert.equal((await send({ url, headers: JOSE, body })).status, 200)
      const { der } = await owner.obtain(['nothing.test'], responder)
      const certificate = base64url(der)
      const revoked = await owner.post(owner.directory['revokeCert'] as string, { certificate, reason: nothing })
      assert.equal(revoked.status, 200, revoked.text)
    })
  }

  test('a pre-authorization is given back for as long as it is valid, with 200 (§7.4.1)', async () => {
    const owner = await registeredClient(service.directoryUrl)
    const url = owner.directory['newAuthz'] as string
    const payload = { identifier: { type: 'dns', value: 'again.test' } }
    const made = await owner.post(url, payload)
    await owner.authorize({ ...made, json: { authorizations: [locationOf(made)] } }, responder)
    const again = await owner.post(url, payload)
    assert.deepEqual([again.status, locationOf(again), again.json.status], [200, locationOf(made), 'valid'])
    await owner.post(locationOf(made), { status: 'deactivated' })
    const next = await owner.post(url, payload)
    assert.deepEqual([next.status, next.json.status], [201, 'pending'])
  })

  test('the orders list comes in pages, oldest first, without invalid orders; next is signed with its query (§7.1.2.1)', async () => {
    const owner = await registeredClient(service.directoryUrl)
    const made: string[] = []
    for (let i = 0; i < 8; i++) {
      const order = await owner.newOrder([`list${i}.test`])
      if (i === 4) await owner.post(order.json.authorizations[0], { status: 'deactivated' })
      else made.push(locationOf(order))
    }
    const listed: string[] = []
    let url: string | undefined = `${owner.kid}/orders`
    let pages = 0
    while (url !== undefined) {
      const page: Answer = await owner.post(url)
      assert.equal(page.status, 200, page.text)
      assert.ok(page.json.orders.length <= 3)
      listed.push(...page.json.orders)
      pages++
      url = page.links['next']?.[0]
    }
    assert.deepEqual(listed, made)
    assert.equal(pages, 3)
  })

  test('an account without orders has an empty list and no next page (§7.1.2.1)', async () => {
    const owner = await registeredClient(service.directoryUrl)
    const page = await owner.post(`${owner.kid}/orders`)
    assert.deepEqual(page.json, { orders: [] })
    assert.equal(page.links['next'], undefined)
  })
})
