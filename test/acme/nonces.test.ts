/**
 * Nonces with `nonce.store: database` (RFC 8555 §6.5): a restart, and a crash of the database.
 * The store in memory is in `restart.test.ts`.
 */

import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { closeConnections, createAcmeClient, JOSE, send } from '../support/acme-client.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { RECORDED, SHORT_LIVED, testRecordAtTheEnd, testRecordedNonces } from '../support/recorded-nonces.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const CONFIG = { ...RECORDED, database: { auto_setup: true }, nonce: { ...RECORDED.nonce, store: 'database' } }

describe('nonces in the database', () => {
  const dataDir = temporaryFolder()
  const startPostgres = () => startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })
  let postgres: EmbeddedPostgres
  before(async () => {
    postgres = await startPostgres()
  })
  const { service, client, again } = restartedScene(() => ({
    config: { ...CONFIG, nonce: { ...CONFIG.nonce, ...SHORT_LIVED } },
    database: { connection: postgres.connection, drop: async () => undefined },
  }))
  after(async () => {
    await postgres?.stop()
    rmSync(postgres.folder, { recursive: true, force: true })
  })

  testRecordedNonces(() => ({ service, client }))

  test('a restart leaves unused nonces valid, and used ones used', async () => {
    const used = JSON.stringify(await client.jws(client.kid))
    const unused = JSON.stringify(await client.jws(client.kid))
    const post = (body: string) => send({ url: client.kid, headers: JOSE, body })
    assert.equal((await post(used)).status, 200)
    closeConnections()
    await service.kill()
    await again({ fronts: 1, config: CONFIG })
    assert.equal((await post(used)).json.type, 'urn:ietf:params:acme:error:badNonce')
    assert.equal((await post(unused)).status, 200)
    assert.equal((await post(unused)).json.type, 'urn:ietf:params:acme:error:badNonce')
  })

  test('after a crash of the database a used nonce is not accepted again although the record of it is lost, and new ones soon are', async () => {
    const used = JSON.stringify(await client.jws(client.kid))
    const post = () => send({ url: client.kid, headers: JOSE, body: used })
    assert.equal((await post()).status, 200)

    process.kill(postgres.pid, 'SIGKILL')
    // The handle does not keep this process alive, a timer does.
    const hold = setInterval(() => undefined, 1_000)
    await postgres.exited
    clearInterval(hold)
    postgres = await startPostgres()

    await until('a nonce is accepted', async () => {
      const replayed = await post()
      assert.notEqual(replayed.status, 200, 'a replay must never pass')
      return (await client.post(client.kid)).status === 200
    })
    assert.equal((await post()).json.type, 'urn:ietf:params:acme:error:badNonce')
    assert.equal((await createAcmeClient(service.directoryUrl).then((other) => other.newAccount())).status, 201)
  })

  testRecordAtTheEnd(() => ({ service, client }))
})
