/** The connection pool pressure guard over HTTP: statements that do not come back, and what is answered meanwhile. */

import assert from 'node:assert/strict'
import { after, afterEach, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type Answer, closeConnections, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { until } from '../support/until.ts'

/** One request in so many milliseconds passes an exhausted pool. */
const PROBE_MS = 2_000

describe('pool pressure guard', () => {
  const { service, client, database: locker } = acmeScene('few connections')
  afterEach(() => locker.query('ROLLBACK'))
  after(async () => {
    await locker.end()
    closeConnections()
  })

  /** Every statement about accounts stands still until the returned function is called. */
  async function stall(): Promise<() => Promise<unknown>> {
    // The thread remembers the account from here on; waiting for one look-up would keep one connection busy.
    assert.equal((await client.post(client.kid)).status, 200)
    await locker.query('BEGIN')
    await locker.query('LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE')
    return () => locker.query('COMMIT')
  }

  /** Each holds a connection of its own. The nonces are fetched before the server is asked for anything else. */
  async function lists(count: number): Promise<() => Promise<Answer>[]> {
    const url = `${client.kid}/orders`
    const bodies: string[] = []
    for (let i = 0; i < count; i++) bodies.push(JSON.stringify(await client.jws(url)))
    const headers = { 'Content-Type': 'application/jose+json' }
    return () => bodies.map((body) => send({ url, headers, body }))
  }

  const directory = () => send({ method: 'GET', url: service.directoryUrl })

  const firstRefusal = (retryAfter?: string): Promise<Answer> =>
    until('a refusal of the guard', async () => {
      const answer = await directory()
      const isIt = retryAfter === undefined || answer.headers['retry-after'] === retryAfter
      return answer.status === 503 && isIt && answer
    })

  async function untilAllowed(): Promise<void> {
    for (let calm = 0; calm < 3; await pause(60)) calm = (await directory()).status === 200 ? calm + 1 : 0
  }

  test('more requests than connections, each quickly done, are all served', async () => {
    const batch = await lists(60)
    for (const answer of await Promise.all(batch())) assert.equal(answer.status, 200)
  })

  test('three of four connections stuck is critical: 503 with Retry-After 3', async () => {
    const batch = await lists(3)
    const release = await stall()
    const answers = batch()
    const refused = await firstRefusal()
    await release()
    assert.equal(refused.headers['retry-after'], '3')
    for (const answer of await Promise.all(answers)) assert.equal(answer.status, 200)
    await untilAllowed()
  })

  test('two stuck, two busy and one waiting is pressure: Retry-After 2; all stuck is exhausted: Retry-After 5', async () => {
    const [first, second] = [await lists(2), await lists(4)]
    const release = await stall()
    const answers = first()
    await pause(700)
    answers.push(...second())
    const seen: string[] = []
    await until('the pool is exhausted', async () => {
      const { status, headers } = await directory()
      const retryAfter = String(headers['retry-after'])
      if (status === 503 && seen.at(-1) !== retryAfter) seen.push(retryAfter)
      return seen.at(-1) === '5'
    })
    await release()
    // Each tier in its turn; those of a moment, and three stuck are one, may be over before anybody asks.
    assert.equal(seen.at(-1), '5')
    assert.deepEqual(
      seen,
      ['2', '3', '5'].filter((tier) => seen.includes(tier)),
    )
    for (const answer of await Promise.all(answers)) assert.equal(answer.status, 200)
    await untilAllowed()
  })

  test('an exhausted pool refuses everything but the health endpoints and one request every two seconds', async () => {
    const batch = await lists(6)
    const release = await stall()
    const answers = batch()
    const refused = await firstRefusal('5')
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:serverInternal')
    assert.match(String(refused.headers['content-type']), /^application\/problem\+json/)
    await pause(300)

    const statuses: number[] = []
    const beganAt = Date.now()
    for (; Date.now() < beganAt + 3_000; await pause(50)) statuses.push((await directory()).status)
    const probes = statuses.filter((status) => status === 200).length
    const most = 1 + Math.floor((Date.now() - beganAt) / PROBE_MS)
    assert.ok(probes >= 1 && probes <= most, `${probes} requests passed, ${most} may`)
    // One of the two may be the next that passes.
    const metrics = await Promise.all([1, 2].map(() => send({ method: 'GET', url: `${service.baseUrl}/metrics` })))
    assert.ok(metrics.some(({ status }) => status === 503))

    assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/livez` })).status, 200)
    const health = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
    assert.equal(health.status, 503)
    assert.equal(health.json.checks.database, 'pool_exhausted')
    const ready = await send({ method: 'GET', url: `${service.baseUrl}/readyz` })
    assert.equal(ready.json.reason, 'Connection pool exhausted')
    assert.deepEqual([ready.json.pool.size, ready.json.pool.available], [4, 0])

    await release()
    for (const answer of await Promise.all(answers)) assert.equal(answer.status, 200)
    await untilAllowed()
    assert.match(
      (await send({ method: 'GET', url: `${service.baseUrl}/metrics` })).text,
      /service_pool_rejections_total\{tier="exhausted"\} \d/,
    )
  })
})
