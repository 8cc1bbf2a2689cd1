/** CRLs of several instances on one database: the same bytes everywhere, whoever builds them; schedule and staleness. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const CRL_LOCK = 712948

const fetchCrl = async ({ baseUrl }: TestService) => {
  const answer = await send({ method: 'GET', url: `${baseUrl}/crl` })
  return { ...answer, crl: answer.status === 200 ? readCrl(answer.body) : undefined }
}

describe('two instances', () => {
  let first: TestService
  let second: TestService
  let responder: Responder
  let client: AcmeClient
  const config = { crl: { enabled: true }, nonce: { store: 'database' } }
  before(async () => {
    first = await startTestService({ fronts: 1, config })
    // Both sign with the CA of the first, as two hosts with one signer do.
    const ca = {
      internal: {
        root_cert_path: first.ca.intermediate,
        root_key_path: first.ca.intermediateKey,
        chain_path: first.ca.root,
      },
    }
    second = await startTestService({ fronts: 1, config: { ...config, ca }, beside: first })
    responder = await startResponder(second.http01Port)
    client = await registeredClient(second.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await second.dispose()
    await first.dispose()
  })

  const revoke = async (name: string) => {
    const { der } = await client.obtain([name], responder)
    const answer = await client.post(client.directory['revokeCert'] as string, { certificate: base64url(der) })
    assert.equal(answer.status, 200)
    return new X509Certificate(der).serialNumber.toLowerCase()
  }

  const listedAt = (service: TestService, serial: string) =>
    until(`${serial} is listed`, async () => {
      const answer = await fetchCrl(service)
      return answer.crl?.entries.some((entry) => entry.serial === serial) && answer
    })

  test('serve the same bytes under the same tag', async () => {
    const serial = await revoke('both.test')
    await Promise.all([listedAt(first, serial), listedAt(second, serial)])
    // A revocation that comes while a list is built has another one follow, which one of them may have a second before the other.
    const [one, other] = await until('both serve the same list', async () => {
      const answers = await Promise.all([fetchCrl(first), fetchCrl(second)])
      return answers[0].headers.etag === answers[1].headers.etag && answers
    })
    assert.deepEqual(one.body, other.body)
  })

  test('when one is killed, the other builds', async () => {
    const { crl } = await fetchCrl(first)
    await first.kill()
    const serial = await revoke('left.test')
    const answer = await listedAt(second, serial)
    assert.ok(answer.crl!.number > crl!.number)
  })
})

describe('a list that is not renewed', () => {
  let service: TestService
  let db: pg.Client
  before(async () => {
    service = await startTestService({ fronts: 1, config: { crl: { enabled: true, schedule: '*/2 * * * * *' } } })
    db = new pg.Client(service.database.connection)
    await db.connect()
  })
  after(async () => {
    await db.end()
    closeConnections()
    await service.dispose()
  })

  const health = (name: string) => send({ method: 'GET', url: `${service.baseUrl}/${name}` })

  test('comes by the cron expression when nothing happens (crl.schedule)', async () => {
    const { crl } = await fetchCrl(service)
    await until('a new list', async () => (await fetchCrl(service)).crl!.number > crl!.number)
  })

  test('degrades health, and is served all the same until there is a new one', async () => {
    // Nobody can lead the building of lists while we do.
    await db.query('SELECT pg_advisory_lock($1)', [CRL_LOCK])
    await db.query(`UPDATE crls SET next_update = now() - interval '1 second'`)
    const degraded = await until('health is degraded', async () => {
      const answer = await health('healthz')
      return answer.status === 503 && answer
    })
    assert.deepEqual(degraded.json.checks.crl, { status: 'error', stale: true })
    const ready = await health('readyz')
    assert.deepEqual([ready.status, ready.json.reason], [503, 'CRL is stale'])
    assert.equal((await fetchCrl(service)).status, 200)

    await db.query('SELECT pg_advisory_unlock($1)', [CRL_LOCK])
    await until('health is well again', async () => (await health('healthz')).status === 200)
  })
})
