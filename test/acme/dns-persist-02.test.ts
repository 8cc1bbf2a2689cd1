/** dns-persist-01 over HTTP as draft-ietf-acme-dns-persist-02 has it, where it is switched on. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { type Answer, newAccountKey, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import {
  authorize,
  challengeOf,
  finalize,
  ISSUER,
  secondsFromNow,
  unixTime,
  withNewKey,
  type Zone,
  zoneOf,
} from '../support/clients/persistent-records.ts'
import { scriptedNames } from '../support/names/scripted-names.ts'

const HOUR = 3600

describe('dns-persist-01 of draft 02, with records for the names below', () => {
  let zone: Zone
  const { service, client } = acmeScene('names')
  let prefix: string
  before(async () => {
    zone = zoneOf((await scriptedNames()).methods)
    prefix = (client.directory as unknown as { meta: { accountHashPrefix: string } }).meta.accountHashPrefix
  })

  /** §4.1, written a second time on purpose. */
  function hashed(name: string, by = client): string {
    const digest = createHash('sha256')
      .update(Buffer.from([name.length]))
      .update(name + by.key.thumbprint + by.kid)
      .digest('base64url')
    return `${ISSUER}; accounturi=${prefix}sha-256/${digest}`
  }

  test('directory and challenge carry the names of draft 02, beside those of 01 (§3.1, §3.2, §4.1)', async () => {
    const { meta } = client.directory as unknown as { meta: Record<string, unknown> }
    assert.deepEqual(meta['issuerDomainNames'], ['ca.example', 'ca2.example'])
    assert.equal(meta['accountHashPrefix'], `${service.baseUrl}/account-hash/`)
    const order = await client.newOrder(['object.example'])
    const challenge = challengeOf(await client.post(order.json.authorizations[0]))
    assert.deepEqual(challenge.issuerDomainNames, ['ca.example', 'ca2.example'])
    assert.deepEqual(challenge['issuer-domain-names'], challenge.issuerDomainNames)
    assert.equal(challenge.accounturi, client.kid)
    assert.equal('token' in challenge, false)
  })

  test('a hashed account URI proves control, for one name or for any, and the TTL does not bound it (§7.9)', async () => {
    zone.publish('one.example', hashed('one.example'), 30)
    zone.publish('any.example', hashed('*'), 30)
    const { order, authorizations } = await authorize(client, ['one.example', 'any.example'])
    assert.equal(order.json.status, 'ready')
    for (const authorization of authorizations) assert.ok(secondsFromNow(authorization) > 24 * HOUR)
    await finalize(client, order, ['one.example', 'any.example'])
  })

  test('persistUntil bounds expires (§4.1)', async () => {
    const until = unixTime(5000)
    zone.publish('until.example', `${hashed('until.example')}; persistUntil=${until}`)
    const { authorizations } = await authorize(client, ['until.example'])
    const expires = Date.parse((authorizations[0] as Answer).json.expires) / 1000
    assert.ok(expires <= until && expires > until - 10, `${expires - until}`)
  })

  test('a record with the account URL is accepted too, bounded by its TTL', async () => {
    zone.publish('old.example', `${ISSUER}; accounturi=${client.kid}`, 700)
    const { order, authorizations } = await authorize(client, ['old.example'])
    assert.equal(order.json.status, 'ready')
    assert.ok(secondsFromNow(authorizations[0] as Answer) <= 700)
  })

  test('a record of a key that was changed since is accepted, twice over (§4.2)', async () => {
    const first = await registeredClient(service.directoryUrl)
    zone.publish('first.example', hashed('first.example', first))
    const second = await withNewKey(first, newAccountKey())
    zone.publish('second.example', hashed('second.example', second))
    const third = await withNewKey(second, newAccountKey())
    const { order } = await authorize(third, ['first.example', 'second.example'])
    assert.equal(order.json.status, 'ready')
  })

  test('a record above with policy=wildcard authorizes names and wildcards below (§6)', async () => {
    zone.publish('corp.example', `${hashed('corp.example')}; policy=wildcard`)
    const names = ['a.b.corp.example', '*.c.corp.example', '*.corp.example', 'corp.example']
    const { order } = await authorize(client, names)
    assert.equal(order.json.status, 'ready')
    const certificate = await finalize(client, order, names)
    for (const name of ['a.b.corp.example', 'x.c.corp.example', 'x.corp.example', 'corp.example'])
      assert.ok(certificate.checkHost(name), name)
  })

  test('every attempt leaves its evidence in the log', async () => {
    zone.publish('evidence.example', hashed('evidence.example'))
    await authorize(client, ['evidence.example'])
    const line = await service.untilLogged(
      'the attempt',
      (one) => one.message === 'validation attempt' && /evidence\.example/.test(JSON.stringify(one)),
    )
    assert.match(JSON.stringify(line), /"name":"_validation-persist\.evidence\.example"/)
  })
})
