/**
 * Nonces of either store (RFC 8555 §6.5): their age, the record of `nonce.audit_consumed`, and with `nonce.store: database` a restart
 * and a crash of the database.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import {
  type AcmeClient,
  closeConnections,
  createAcmeClient,
  JOSE,
  registeredClient,
  send,
} from '../support/acme-client.ts'
import { rowsIn } from '../support/database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Nonces are used within this, also when the machine stands still for a moment between the two. */
const MAX_AGE_SECONDS = 10
const RECORDED = { audit_consumed: true, gc_interval_seconds: 1, expiry_seconds: 600 }

for (const store of ['memory', 'database'] as const)
  describe(`nonce.store ${store}`, () => {
    const dataDir = mkdtempSync(path.join(tmpdir(), 'chancery-nonce-'))
    const startPostgres = () => startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log: () => undefined })
    let postgres: EmbeddedPostgres | undefined
    let first: TestService
    let service: TestService
    let client: AcmeClient
    const configWith = (nonce: object) => ({
      audit_retention: { max_age_days: 1 },
      nonce: { store, ...RECORDED, ...nonce },
      ...(postgres && { database: { auto_setup: true } }),
    })
    before(async () => {
      if (store === 'database') postgres = await startPostgres()
      first = service = await startTestService({
        config: configWith({ max_age_seconds: MAX_AGE_SECONDS }),
        ...(postgres && { database: { connection: postgres.connection, drop: async () => undefined } }),
      })
      client = await registeredClient(service.directoryUrl)
    })
    after(async () => {
      closeConnections()
      await service?.dispose()
      if (service !== first) await first?.dispose()
      await postgres?.stop()
      rmSync(dataDir, { recursive: true, force: true })
      if (postgres) rmSync(postgres.folder, { recursive: true, force: true })
    })

    const times = async (nonce: string) =>
      (await rowsIn(service.database, 'SELECT FROM nonce_audit WHERE nonce = $1', [nonce])).length
    const BAD_NONCE = '400 urn:ietf:params:acme:error:badNonce'

    test('the record has each nonce once, and none that was not used', async () => {
      const [used, unused] = [await client.nonce(), await client.nonce()]
      const first = await client.post(client.kid, undefined, { header: { nonce: used } })
      const replay = await client.post(client.kid, undefined, { header: { nonce: used } })
      assert.deepEqual([first.status, replay.status], [200, 400])
      await until('it is recorded', async () => (await times(used)) === 1)
      assert.equal(await times(unused), 0)
    })

    test('the record forgets after the lifetime of a nonce and audit_retention.max_age_days', async () => {
      await rowsIn(
        service.database,
        `INSERT INTO nonce_audit VALUES ('old', now() - interval '1 day 11 minutes'), ('young', now() - interval '1 day')`,
        [],
      )
      await until('the old row is gone', async () => (await times('old')) === 0)
      assert.equal(await times('young'), 1)
    })

    test('nonce.max_age_seconds ends a nonce before expiry_seconds does, and that of the refusal serves the next try', async () => {
      const old = await client.nonce()
      await pause(MAX_AGE_SECONDS * 1000 + 1_500)
      const refused = await client.post(client.kid, undefined, { header: { nonce: old } })
      assert.equal(`${refused.status} ${refused.json.type}`, BAD_NONCE)
      const nonce = refused.headers['replay-nonce']
      assert.equal((await client.post(client.kid, undefined, { header: { nonce } })).status, 200)
    })

    if (store === 'database') {
      test('a restart leaves unused nonces valid, and used ones used', async () => {
        const used = JSON.stringify(await client.jws(client.kid))
        const unused = JSON.stringify(await client.jws(client.kid))
        const post = (body: string) => send({ url: client.kid, headers: JOSE, body })
        assert.equal((await post(used)).status, 200)
        closeConnections()
        await first.kill()
        service = await startTestService({ fronts: 1, config: configWith({}), continueFrom: first })
        assert.equal((await post(used)).json.type, 'urn:ietf:params:acme:error:badNonce')
        assert.equal((await post(unused)).status, 200)
        assert.equal((await post(unused)).json.type, 'urn:ietf:params:acme:error:badNonce')
      })

      test('after a crash of the database a used nonce is not accepted again although the record of it is lost, and new ones soon are', async () => {
        assert.ok(postgres)
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
    }

    test('the record is complete when the service has stopped', async () => {
      const last = await client.nonce()
      assert.equal((await client.post(client.kid, undefined, { header: { nonce: last } })).status, 200)
      closeConnections()
      assert.equal(await service.stop(), 0)
      assert.equal(await times(last), 1)
    })
  })
