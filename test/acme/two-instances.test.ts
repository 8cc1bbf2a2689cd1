/**
 * Two instances on one database, behind one name: nonces (RFC 8555 §6.5), rate limits, and the CRL.
 * Their role does not own the tables, and has the grants of docs/operations/administration.md.
 */

import assert from 'node:assert/strict'
import { createServer, request, type Server } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import {
  type AcmeClient,
  closeConnections,
  JOSE,
  type Responder,
  registeredClient,
  revoke,
  send,
  serialOf,
  startResponder,
} from '../support/acme-client.ts'
import { type AdminClient, adminConfig, administrator } from '../support/admin.ts'
import { readCrl } from '../support/crl.ts'
import { type GrantedRole, grantedRole } from '../support/databases/granted-role.ts'
import { freePort } from '../support/free-port.ts'
import { chancery } from '../support/operator.ts'
import { HOUR, limit } from '../support/rate-limits.ts'
import { configOf, hangUp } from '../support/reload.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const HISTORY = { name: 'new keys', profile_data: { reuse_key: false } }

const fetchCrl = async ({ baseUrl }: TestService) => {
  const answer = await send({ method: 'GET', url: `${baseUrl}/crl` })
  return { ...answer, crl: answer.status === 200 ? readCrl(answer.body) : undefined }
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

let one: TestService
let two: TestService
let balancer: Server
let granted: GrantedRole
let directoryUrl: string
let responder: Responder
before(async () => {
  const port = await freePort()
  granted = await grantedRole()
  const config = {
    admin_api: adminConfig().admin_api,
    crl: { enabled: true },
    database: { auto_setup: false },
    nonce: { store: 'database', audit_consumed: true },
    proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
    security: { rate_limits: { backend: 'database' } },
    server: { external_url: `http://127.0.0.1:${port}` },
  }
  one = await startTestService({ config, database: { ...granted.database, drop: async () => undefined } })
  // Both sign with the CA of the first, as two hosts with one signer do.
  const { intermediate: root_cert_path, intermediateKey: root_key_path, root: chain_path } = one.ca
  const ca = { internal: { root_cert_path, root_key_path, chain_path } }
  const challenges = { http01: { port: one.http01Port } }
  two = await startTestService({ config: { ...config, ca, challenges }, beside: one })
  balancer = await startBalancer(port, () => [one, two].filter(isRunning).map((service) => service.port))
  directoryUrl = `http://127.0.0.1:${port}/directory`
  responder = await startResponder(one.http01Port)
})
after(async () => {
  closeConnections()
  balancer?.closeAllConnections()
  balancer?.close()
  await responder?.close()
  await two?.dispose()
  await one?.dispose()
  await granted?.drop()
})

const isRunning = ({ process: { exitCode, signalCode } }: TestService) => exitCode === null && signalCode === null

describe('a role that does not own the tables', () => {
  let admin: AdminClient
  before(async () => {
    admin = await administrator(one, 'alice')
  })

  test('issues, revokes, and publishes the CRL, with nonces and limits that instances share', async () => {
    const client = await registeredClient(directoryUrl)
    await client.obtain(['granted.test'], responder)
    const [{ serial_number: serial }] = (await admin.get('/certificates')).json
    assert.equal((await admin.send('POST', `/certificates/${serial}/revoke`)).status, 200)
    const rebuilt = await admin.send('POST', '/crl/rebuild')
    assert.deepEqual([rebuilt.status, rebuilt.json.revoked_count], [200, 1], rebuilt.text)
    const complaints = [...one.log, ...two.log].filter((line) =>
      /permission denied|must be owner/.test(JSON.stringify(line)),
    )
    assert.deepEqual(complaints, [])
  })

  test('a profile that needs an index says that the owner has to make it', async () => {
    const refused = await admin.send('POST', '/csr-profiles', HISTORY)
    assert.deepEqual([refused.status, refused.json.error], [503, 'unavailable'])
    assert.match(refused.json.message, /owner of the tables.*db search-indexes/)
  })

  test('the owner makes all indexes with db search-indexes, and the service stores the profile', async () => {
    assert.match((await chancery(one, 'db', 'search-indexes')).stderr, /must be owner/)
    await granted.asOwner(`ALTER DATABASE ${granted.database.connection.database} RESET role`)
    const { code, stderr } = await chancery(one, 'db', 'search-indexes', '--history')
    assert.equal(code, 0, stderr)
    assert.equal((await admin.send('POST', '/csr-profiles', HISTORY)).status, 201)
  })
})

describe('nonces of two instances (RFC 8555 §6.5)', () => {
  /** The same request to one instance after the other. */
  async function replays(client: AcmeClient, url: string, times: number) {
    const body = JSON.stringify(await client.jws(url))
    const target = (i: number) => url.replace(/^http:\/\/[^/]+/, (i % 2 ? one : two).baseUrl)
    return Promise.all(Array.from({ length: times }, (_, i) => send({ url: target(i), headers: JOSE, body })))
  }

  test('a certificate is obtained with requests that alternate between them', async () => {
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
      await granted.asOwner(`TRUNCATE ${[0, 1, 2, 3].map((i) => `nonce_redemptions_${i}`).join(', ')}`)
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

describe('rate limits of two instances', () => {
  test('with backend database they count together', async () => {
    const originals = [one, two].map((service) => configOf(service).text())
    for (const service of [one, two])
      await limit(service, { new_nonce: { requests: 20, window_seconds: HOUR } }, 'database')
    const headers = { 'X-Forwarded-For': '203.0.113.9' }
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        send({ method: 'HEAD', url: `${(i % 2 === 0 ? one : two).baseUrl}/new-nonce`, headers }),
      ),
    )
    assert.equal(answers.filter(({ status }) => status === 200).length, 20)
    for (const [i, service] of [one, two].entries()) {
      configOf(service).write(originals[i] as string)
      await hangUp(service)
    }
  })
})

describe('the CRL of two instances', () => {
  let client: AcmeClient
  before(async () => {
    client = await until('an accepted nonce', () => registeredClient(directoryUrl).catch(() => undefined))
  })

  const revoked = async (name: string) => {
    const { der } = await client.obtain([name], responder)
    assert.equal((await revoke(client, der)).status, 200)
    return serialOf(der)
  }

  const listedAt = (service: TestService, serial: string) =>
    until(`${serial} is listed`, async () => {
      const answer = await fetchCrl(service)
      return answer.crl?.entries.some((entry) => entry.serial === serial) && answer
    })

  test('serve the same bytes under the same tag', async () => {
    const serial = await revoked('both.test')
    await Promise.all([listedAt(one, serial), listedAt(two, serial)])
    // A revocation that comes while a list is built has another one follow, which one of them may have a second before the other.
    const [here, there] = await until('both serve the same list', async () => {
      const answers = await Promise.all([fetchCrl(one), fetchCrl(two)])
      return answers[0].headers.etag === answers[1].headers.etag && answers
    })
    assert.deepEqual(here.body, there.body)
  })

  test('when one is killed, the other builds', async () => {
    const { crl } = await fetchCrl(one)
    await one.kill()
    const serial = await revoked('left.test')
    const answer = await listedAt(two, serial)
    assert.ok(answer.crl!.number > crl!.number)
  })
})
