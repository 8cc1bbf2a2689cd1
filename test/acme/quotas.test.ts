/** Daily quotas of accounts over HTTP (`quotas.*`), and what an issuer that ends soon leaves uncounted. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeAuthority } from '../signer/authority.ts'
import { useSigner } from '../signer/daemon.ts'
import { type Answer, csrFor, locationOf, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { age } from '../support/aged-certificate.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { startTestService } from '../support/service.ts'
import { FOR_SERVERS } from '../support/shared-service.ts'

const DAY_MS = 86_400_000
/** More than all of this takes, on a slow machine too. */
const ENOUGH_MS = 180_000

/** A day of a quota is one of UTC, and what is counted here is to fall into one. */
async function untilDayIsYoung(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < ENOUGH_MS) await sleep(leftMs + 1000)
}

describe('quotas', () => {
  before(untilDayIsYoung)
  const signer = useSigner({ default: makeAuthority(), old: makeAuthority('P-256', { daysAhead: 1 }) })
  const { service, responder } = acmeScene(() =>
    startTestService({
      config: {
        ca: { signer: signer.section, profiles: { old: { ...FOR_SERVERS, issuer: 'old' } } },
        quotas: { enabled: true, max_orders_per_account_per_day: 4, max_certificates_per_account_per_day: 1 },
      },
    }),
  )

  function assertExceeded(answer: Answer, kind: string): void {
    assert.equal(answer.status, 429, answer.text)
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:rateLimited')
    assert.match(answer.json.detail, new RegExp(`^quota: \\d ${kind} a day`))
    const retryAfter = Number(answer.headers['retry-after'])
    assert.ok(retryAfter >= 1 && retryAfter <= 86_400)
  }

  test('an account makes as many orders as its quota says, however many it asks for at once', async () => {
    const client = await registeredClient(service.directoryUrl)
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => client.newOrder([`order${i}.test`])))
    assert.equal(answers.filter(({ status }) => status === 201).length, 4)
    for (const answer of answers) if (answer.status !== 201) assertExceeded(answer, 'orders')
    const other = await registeredClient(service.directoryUrl)
    assert.equal((await other.newOrder(['other.test'])).status, 201)
  })

  test('a pre-authorization counts as an order, unless a valid one is given back', async () => {
    const client = await registeredClient(service.directoryUrl)
    const preAuthorize = (value: string) =>
      client.post(client.directory['newAuthz'] as string, { identifier: { type: 'dns', value } })
    const made = await preAuthorize('pre0.test')
    await client.authorize({ ...made, json: { authorizations: [made.headers.location] } }, responder)
    for (let i = 0; i < 4; i++) assert.equal((await preAuthorize('pre0.test')).status, 200)
    for (let i = 1; i < 4; i++) assert.equal((await preAuthorize(`pre${i}.test`)).status, 201)
    assertExceeded(await preAuthorize('pre5.test'), 'orders')
    assertExceeded(await client.newOrder(['order.test']), 'orders')
  })

  test('an order that is refused is not counted', async () => {
    const client = await registeredClient(service.directoryUrl)
    for (let i = 0; i < 6; i++) assert.equal((await client.newOrder(['not a name'])).status, 400)
    for (let i = 0; i < 4; i++) assert.equal((await client.newOrder([`good${i}.test`])).status, 201)
    assertExceeded(await client.newOrder(['good5.test']), 'orders')
  })

  test('a replacement counts as a certificate, and not as an order (RFC 9773 §5)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const { der } = await client.obtain(['replaced.test'], responder)
    for (let i = 0; i < 3; i++) assert.equal((await client.newOrder([`filling${i}.test`])).status, 201)
    assertExceeded(await client.newOrder(['replaced.test']), 'orders')
    await age(service, der)
    const order = await client.newOrder(['replaced.test'], { replaces: certIdOf(der) })
    assert.equal(order.status, 201, order.text)
    assertExceeded(await client.newOrder(['replaced.test']), 'orders')
    await client.authorize(order, responder)
    assertExceeded(await client.post(order.json.finalize, { csr: await csrFor(['replaced.test']) }), 'certificates')
  })

  test('a certificate beyond the quota leaves its order ready, and a refused CSR is not counted', async () => {
    const client = await registeredClient(service.directoryUrl)
    const first = await client.newOrder(['first.test'])
    await client.authorize(first, responder)
    const refused = await client.post(first.json.finalize, { csr: await csrFor(['another.test']) })
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:badCSR')
    assert.equal((await client.post(first.json.finalize, { csr: await csrFor(['first.test']) })).status, 200)
    assert.equal((await client.settled(String(first.headers.location))).json.status, 'valid')

    const second = await client.newOrder(['second.test'])
    await client.authorize(second, responder)
    assertExceeded(await client.post(second.json.finalize, { csr: await csrFor(['second.test']) }), 'certificates')
    assert.equal((await client.post(String(second.headers.location))).json.status, 'ready')
  })

  test('an issuer that ends in a day refuses a start behind its end; the order stays ready, nothing is counted, and there is no alarm', async () => {
    const client = await registeredClient(service.directoryUrl)
    const notBefore = new Date(Date.now() + 1.5 * DAY_MS).toISOString()
    const order = await client.newOrder(['late.test'], { notBefore, profile: 'old' })
    assert.equal(order.status, 201, order.text)
    await client.authorize(order, responder)
    const refusal = await client.post(order.json.finalize, { csr: await csrFor(['late.test']) })
    assert.equal(refusal.status, 400, refusal.text)
    assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:malformed')
    assert.match(refusal.json.detail, /notBefore/)
    assert.equal((await client.post(locationOf(order))).json.status, 'ready')
    assert.match((await send({ method: 'GET', url: `${service.baseUrl}/metrics` })).text, /^service_alarms_total 0$/m)
    // The day's one certificate is still to be had.
    await client.obtain(['now.test'], responder, { order: { profile: 'old' } })
  })
})
