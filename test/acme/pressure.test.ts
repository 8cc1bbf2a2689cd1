/** The connection pool pressure guard over HTTP: statements that do not come back, and what is answered meanwhile. */

import assert from 'node:assert/strict'
import { after, afterEach, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { parse } from 'yaml'
import { type Answer, closeConnections, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { configOf } from '../support/reload.ts'
import { until } from '../support/until.ts'

/** One request in so many milliseconds passes an exhausted pool. */
const PROBE_MS = 2_000

describe('pool pressure guard', () => {
  const { service, client, database: locker } = acmeScene('few connections')
  const began = Date.now()
  const at = (place: string, method = 'GET') => send({ method, url: `${service.baseUrl}${place}` })
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

  /** What the guard refuses, and what costs nothing and fails for nothing else. */
  const guarded = () => send({ method: 'OPTIONS', url: `${service.baseUrl}/new-order` })

  const firstRefusal = (retryAfter?: string): Promise<Answer> =>
    until('a refusal of the guard', async () => {
      const answer = await guarded()
      const isIt = retryAfter === undefined || answer.headers['retry-after'] === retryAfter
      return answer.status === 503 && isIt && answer
    })

  async function untilAllowed(): Promise<void> {
    for (let calm = 0; calm < 3; await pause(60)) calm = (await guarded()).status === 204 ? calm + 1 : 0
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
      const { status, headers } = await guarded()
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

  test('an exhausted pool refuses what needs it, but for one request every two seconds', async () => {
    const batch = await lists(6)
    const release = await stall()
    const answers = batch()
    const refused = await firstRefusal('5')
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:serverInternal')
    assert.match(String(refused.headers['content-type']), /^application\/problem\+json/)
    await pause(300)

    const statuses: number[] = []
    const beganAt = Date.now()
    for (; Date.now() < beganAt + 3_000; await pause(50)) statuses.push((await guarded()).status)
    const probes = statuses.filter((status) => status === 204).length
    const most = 1 + Math.floor((Date.now() - beganAt) / PROBE_MS)
    assert.ok(probes >= 1 && probes <= most, `${probes} requests passed, ${most} may`)
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

  test('while every table is locked, what needs no statement is answered, also with more under way than are a queue', async () => {
    const crlPort = (parse(configOf(service).text()) as { crl: { http_port: number } }).crl.http_port
    await until('the list is published', async () => (await at('/crl')).status === 200)
    // RFC 8555 §7.2: 200 to HEAD, 204 to GET.
    const asked: [string, () => Promise<Answer>, number][] = [
      ['directory', () => send({ method: 'GET', url: service.directoryUrl }), 200],
      ['HEAD /new-nonce', () => at('/new-nonce', 'HEAD'), 200],
      ['GET /new-nonce', () => at('/new-nonce'), 204],
      ...['/crl', '/crl/default', '/roots.pem', '/livez', '/metrics'].map(
        (place): [string, () => Promise<Answer>, number] => [place, () => at(place), 200],
      ),
      ...['/crl', '/roots.pem'].map((place): [string, () => Promise<Answer>, number] => [
        `${place} over plain HTTP`,
        () => send({ method: 'GET', url: `http://127.0.0.1:${crlPort}${place}` }),
        200,
      ]),
      ['/readyz', () => at('/readyz'), 503],
      ['/healthz', () => at('/healthz'), 503],
    ]
    for (const [what, ask, status] of asked.slice(0, -2)) assert.equal((await ask()).status, status, what)
    const batch = await lists(20)
    const { rows } = await locker.query<{ tables: string }>(`
      SELECT string_agg(format('%I', relname), ', ') AS tables
        FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')`)
    // Who comes late waits for the lock itself.
    const linesBefore = service.log.filter(({ event }) => event === 'pool_pressure').length
    await locker.query('BEGIN')
    await locker.query(`LOCK TABLE ${rows[0]?.tables} IN ACCESS EXCLUSIVE MODE`)
    const answers = batch()
    await until('the guard refuses', async () => (await guarded()).status === 503)
    for (let round = 0; round < 3; round++)
      for (const [what, ask, status] of asked) {
        const answer = await ask()
        assert.equal(answer.status, status, `${what}: ${answer.text}`)
        if (what === '/metrics')
          assert.deepEqual(answer.text.match(/^service_(?:database_up|ready) .*/gm)?.toSorted(), [
            'service_database_up 0',
            'service_ready 0',
          ])
        if (status === 503) assert.match(String(answer.headers['content-type']), /^application\/json/)
        await guarded()
      }
    await locker.query('ROLLBACK')
    for (const answer of await Promise.all(answers)) assert.ok([200, 503].includes(answer.status))
    await untilAllowed()
    const lines = service.log.filter(({ event }) => event === 'pool_pressure')
    assert.ok(lines.length >= Math.max(1, linesBefore), 'refusals of the guard are in the log')
    assert.ok(lines.length <= 1 + (Date.now() - began) / 60_000, 'one line a minute')
  })
})
