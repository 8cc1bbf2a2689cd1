/** `nonce.audit_consumed`: a row for each nonce that a request has used up. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AcmeClient, closeConnections, registeredClient } from '../support/acme-client.ts'
import { rowsIn } from '../support/database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

for (const store of ['memory', 'database'] as const) {
  describe(`the record of used nonces, nonce.store ${store}`, () => {
    let service: TestService
    let client: AcmeClient
    before(async () => {
      const nonce = { store, audit_consumed: true, gc_interval_seconds: 1, expiry_seconds: 600 }
      service = await startTestService({ config: { nonce, audit_retention: { max_age_days: 1 } } })
      client = await registeredClient(service.directoryUrl)
    })
    after(async () => {
      closeConnections()
      await service.dispose()
    })

    const times = async (nonce: string) =>
      (await rowsIn(service.database, 'SELECT FROM nonce_audit WHERE nonce = $1', [nonce])).length

    test('has each nonce once, and none that was not used', async () => {
      const [used, unused] = [await client.nonce(), await client.nonce()]
      const first = await client.post(client.kid, undefined, { header: { nonce: used } })
      const replay = await client.post(client.kid, undefined, { header: { nonce: used } })
      assert.deepEqual([first.status, replay.status], [200, 400])
      await until('it is recorded', async () => (await times(used)) === 1)
      assert.equal(await times(unused), 0)
    })

    test('forgets after the lifetime of a nonce and audit_retention.max_age_days', async () => {
      await rowsIn(
        service.database,
        `INSERT INTO nonce_audit VALUES ('old', now() - interval '1 day 11 minutes'), ('young', now() - interval '1 day')`,
        [],
      )
      await until('the old row is gone', async () => (await times('old')) === 0)
      assert.equal(await times('young'), 1)
    })

    test('is complete when the service has stopped', async () => {
      const last = await client.nonce()
      assert.equal((await client.post(client.kid, undefined, { header: { nonce: last } })).status, 200)
      closeConnections()
      assert.equal(await service.stop(), 0)
      assert.equal(await times(last), 1)
    })
  })
}
