/** Nonces in either store have an age (RFC 8555 §6.5), and `nonce.audit_consumed` records them. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type AcmeClient, closeConnections } from './acme-client.ts'
import { rowsIn } from './database.ts'
import type { TestService } from './service.ts'
import { until } from './until.ts'

/** Nonces are used within this, also when the machine stands still for a moment between the two. */
const MAX_AGE_SECONDS = 10
const BAD_NONCE = '400 urn:ietf:params:acme:error:badNonce'

/** Sections that the tests below need. */
export const RECORDED = {
  audit_retention: { max_age_days: 1 },
  nonce: { audit_consumed: true, gc_interval_seconds: 1, expiry_seconds: 600 },
}
export const SHORT_LIVED = { max_age_seconds: MAX_AGE_SECONDS }

interface Place {
  service: TestService
  client: AcmeClient
}

const times = async ({ service }: Place, nonce: string) =>
  (await rowsIn(service.database, 'SELECT FROM nonce_audit WHERE nonce = $1', [nonce])).length

/** Tests of a service with `RECORDED` and `SHORT_LIVED`. */
export function testRecordedNonces(place: () => Place): void {
  test('the record has each nonce once, and none that was not used', async () => {
    const { client } = place()
    const [used, unused] = [await client.nonce(), await client.nonce()]
    const first = await client.post(client.kid, undefined, { header: { nonce: used } })
    const replay = await client.post(client.kid, undefined, { header: { nonce: used } })
    assert.deepEqual([first.status, replay.status], [200, 400])
    await until('it is recorded', async () => (await times(place(), used)) === 1)
    assert.equal(await times(place(), unused), 0)
  })

  test('the record forgets after the lifetime of a nonce and audit_retention.max_age_days', async () => {
    const { service } = place()
    await rowsIn(
      service.database,
      `INSERT INTO nonce_audit VALUES ('old', now() - interval '1 day 11 minutes'), ('young', now() - interval '1 day')`,
      [],
    )
    await until('the old row is gone', async () => (await times(place(), 'old')) === 0)
    assert.equal(await times(place(), 'young'), 1)
  })

  test('nonce.max_age_seconds ends a nonce before expiry_seconds does, and that of the refusal serves the next try', async () => {
    const { client } = place()
    const old = await client.nonce()
    await pause(MAX_AGE_SECONDS * 1000 + 1_500)
    const refused = await client.post(client.kid, undefined, { header: { nonce: old } })
    assert.equal(`${refused.status} ${refused.json.type}`, BAD_NONCE)
    const nonce = refused.headers['replay-nonce']
    assert.equal((await client.post(client.kid, undefined, { header: { nonce } })).status, 200)
  })
}

/** A test that stops the service. */
export function testRecordAtTheEnd(place: () => Place): void {
  test('the record of used nonces is complete when the service has stopped', async () => {
    const { client, service } = place()
    const last = await client.nonce()
    assert.equal((await client.post(client.kid, undefined, { header: { nonce: last } })).status, 200)
    closeConnections()
    assert.equal(await service.stop(), 0)
    assert.equal(await times(place(), last), 1)
  })
}
