/** `nonce.store: database`: several instances behind one name (RFC 8555 §6.5), replay across them, restarts and a database crash. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import {
  type AcmeClient,
  closeConnections,
  createAcmeClient,
  JOSE,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const NONCE = { store: 'database' }
/** Nonces are used within this, also when the machine stands still for a moment between the two. */
const MAX_AGE_SECONDS = 4

async function query(service: TestService, text: string): Promise<void> {
  const database = new pg.Client(service.database.connection)
  await database.connect()
  await database.query(text).finally(() => database.end())
}

/** Sends each request to the next of several ports, as a balancer without memory does. */
async function startBalancer(port: number, targets: () => readonly number[]): Promise<Server> {
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const ports = targets()
    const { method, url: requested, headers } = incoming
    const outward = request(
      { host: '127.0.0.1', port: ports[turn++ % ports.length], method, path: requested, headers, agent: false },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
      },
    )
    outward.on('error', () => outgoing.writeHead(502).end())
    incoming.pipe(outward)
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return server
}

describe('two instances behind one name', () => {
  let one: TestService
  let two: TestService
  let balancer: Server
  let directoryUrl: string
  before(async () => {
    const port = await freePort()
    const config = { nonce: NONCE, server: { external_url: `http://127.0.0.1:${port}` } }
    one = await startTestService({ config })
    two = await startTestService({
      config: { ...config, challenges: { http01: { port: one.http01Port } } },
      beside: one,
    })
    balancer = await startBalancer(port, () => [one.port, two.port])
    directoryUrl = `http://127.0.0.1:${port}/directory`
  })
  after(async () => {
    closeConnections()
    balancer.closeAllConnections()
    balancer.close()
    await two.dispose()
    await one.dispose()
  })

  /** The same request to one instance after the other. */
  async function replays(client: AcmeClient, url: string, times: number) {
    const body = JSON.stringify(await client.jws(url))
    const target = (i: number) => url.replace(/^http:\/\/[^/]+/, (i % 2 ? one : two).baseUrl)
    return Promise.all(Array.from({ length: times }, (_, i) => send({ url: target(i), headers: JOSE, body })))
  }

  test('a certificate is obtained with requests that alternate between them', async (context) => {
    const responder = await startResponder(one.http01Port)
    context.after(() => responder.close())
    const client = await registeredClient(directoryUrl)
    const { chain } = await client.obtain(['alternating.test'], responder)
    assert.match(chain, /BEGIN CERTIFICATE/)
  })

  test('of one request sent to all threads of both instances at once, one is accepted (§6.5)', async () => {
    const client = await registeredClient(directoryUrl)
    for (let round = 0; round < 5; round++) {
      const answers = await replays(client, client.kid, 16)
      const accepted = answers.filter(({ status }) => status === 200)
      assert.equal(accepted.length, 1)
      for (const { status, json } of answers)
        if (status !== 200) assert.equal(json.type, 'urn:ietf:params:acme:error:badNonce')
    }
  })

  test('when the record of used nonces is lost, a client that repeats once after badNonce goes on (§6.5)', async () => {
    const client = await registeredClient(directoryUrl)
    const statuses: string[] = []
    for (let round = 0; round < 5; round++) {
      const nonce = await client.nonce()
      // As a crash of PostgreSQL leaves unlogged tables.
      await query(one, `TRUNCATE ${[0, 1, 2, 3].map((i) => `nonce_redemptions_${i}`).join(', ')}`)
      const first = await client.post(client.kid, undefined, { header: { nonce } })
      assert.equal(first.json.type, 'urn:ietf:params:acme:error:badNonce')
      const header = { nonce: String(first.headers['replay-nonce']) }
      const second = await client.post(client.kid, undefined, { header })
      statuses.push(`${second.status} ${second.json.type ?? ''}`)
      // A second loss within a look at the epochs is not what a crash looks like.
      await pause(200)
    }
    assert.deepEqual(statuses, Array(5).fill('200 '))
  })

  test('a nonce of the other instance that was never issued is refused (§6.5.2)', async () => {
    // Nonces of the time before the loss, in the test above, may still be refused.
    const client = await until('an accepted nonce', () => registeredClient(directoryUrl).catch(() => undefined))
    const nonce = (await client.nonce()).replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A'))
    const answer = await client.post(client.kid, undefined, { header: { nonce } })
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:badNonce')
  })
})

describe('a restart of an instance', () => {
  test('unused nonces stay valid, used ones stay used', async () => {
    const first = await startTestService({ fronts: 1, config: { nonce: NONCE } })
    const client = await registeredClient(first.directoryUrl)
    const used = JSON.stringify(await client.jws(client.kid))
    const unused = JSON.stringify(await client.jws(client.kid))
    const post = (body: string) => send({ url: client.kid, headers: JOSE, body })
    assert.equal((await post(used)).status, 200)
    closeConnections()
    await first.kill()
    const second = await startTestService({ fronts: 1, config: { nonce: NONCE }, continueFrom: first })
    try {
      assert.equal((await post(used)).json.type, 'urn:ietf:params:acme:error:badNonce')
      assert.equal((await post(unused)).status, 200)
      assert.equal((await post(unused)).json.type, 'urn:ietf:params:acme:error:badNonce')
    } finally {
      closeConnections()
      await second.stop()
      await first.dispose()
    }
  })

  test('nonce.max_age_seconds ends a nonce before expiry_seconds does', async () => {
    const service = await startTestService({
      fronts: 1,
      config: { nonce: { ...NONCE, max_age_seconds: MAX_AGE_SECONDS } },
    })
    try {
      const client = await registeredClient(service.directoryUrl)
      const body = JSON.stringify(await client.jws(client.kid))
      await pause(MAX_AGE_SECONDS * 1000 + 1_500)
      const late = await send({ url: client.kid, headers: JOSE, body })
      assert.equal(late.json.type, 'urn:ietf:params:acme:error:badNonce')
    } finally {
      closeConnections()
      await service.dispose()
    }
  })
})

describe('a crash of the database', () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'chancery-nonce-'))
  let postgres: EmbeddedPostgres
  let service: TestService
  const start = () => startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })
  before(async () => {
    postgres = await start()
    service = await startTestService({
      fronts: 1,
      config: { nonce: NONCE, database: { auto_setup: true } },
      database: { connection: postgres.connection, drop: async () => undefined },
    })
  })
  after(async () => {
    closeConnections()
    await service.dispose()
    await postgres.stop()
    rmSync(dataDir, { recursive: true, force: true })
    rmSync(postgres.folder, { recursive: true, force: true })
  })

  test('a used nonce is not accepted again although the record of it is lost, and new ones soon are', async () => {
    const client = await registeredClient(service.directoryUrl)
    const used = JSON.stringify(await client.jws(client.kid))
    const post = () => send({ url: client.kid, headers: JOSE, body: used })
    assert.equal((await post()).status, 200)

    process.kill(postgres.pid, 'SIGKILL')
    // The handle does not keep this process alive, a timer does.
    const hold = setInterval(() => undefined, 1_000)
    await postgres.exited
    clearInterval(hold)
    postgres = await start()

    const deadline = Date.now() + 120_000
    let recovered = false
    while (!recovered && Date.now() < deadline) {
      const replayed = await post()
      assert.notEqual(replayed.status, 200, 'a replay must never pass')
      recovered = (await client.post(client.kid)).status === 200
      await pause(50)
    }
    assert.ok(recovered, 'no nonce was accepted for two minutes')
    assert.equal((await post()).json.type, 'urn:ietf:params:acme:error:badNonce')
    assert.equal((await createAcmeClient(service.directoryUrl).then((other) => other.newAccount())).status, 201)
  })
})
