/** dns-persist-01 over HTTP (draft-ietf-acme-dns-persist-01). */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type Answer, csrFor, newAccountKey, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import {
  authorize,
  challengeOf,
  errorOf,
  finalize,
  firstError,
  ISSUER,
  secondsFromNow,
  unixTime,
  withNewKey,
  type Zone,
  zoneOf,
} from '../support/clients/persistent-records.ts'
import { scriptedNames } from '../support/names/scripted-names.ts'
import { until } from '../support/until.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const HOUR = 3600

describe('dns-persist-01', () => {
  let zone: Zone
  const { service, client } = acmeScene('limits')
  let record: string
  before(async () => {
    zone = zoneOf((await scriptedNames()).methods)
    record = `${ISSUER}; accounturi=${client.kid}`
  })

  test('the challenge names the account and this service in normal form, and has no token (§3.1)', async () => {
    const order = await client.newOrder(['object.example'])
    const challenge = challengeOf(await client.post(order.json.authorizations[0]))
    assert.deepEqual(Object.keys(challenge).sort(), ['accounturi', 'issuer-domain-names', 'status', 'type', 'url'])
    assert.equal(challenge.accounturi, client.kid)
    assert.deepEqual(challenge['issuer-domain-names'], ['ca.example', 'second.example'])
    assert.equal(challenge.status, 'pending')
    const fetched = await client.post(challenge.url)
    assert.deepEqual(fetched.json, challenge)
    const { json } = await client.post(service.directoryUrl)
    assert.equal('issuerDomainNames' in (json.meta ?? {}) || 'accountHashPrefix' in (json.meta ?? {}), false)
  })

  test('a certificate by a record that was there before the order, and its renewal without a change of DNS', async () => {
    const name = 'whole.example'
    zone.publish(name, record, 2 * HOUR)
    const { order, authorizations } = await authorize(client, [name])
    assert.equal(order.json.status, 'ready')
    const [authorization] = authorizations as [Answer]
    assert.deepEqual(
      authorization.json.challenges.map(({ type, status }: Record<string, string>) => `${type} ${status}`),
      ['dns-persist-01 valid'],
    )
    assert.match(challengeOf(authorization).validated, /Z$/)
    assert.ok((await finalize(client, order, [name])).checkHost(name))

    // The TTL leaves more than an hour: the authorization is reused, nobody asks the DNS.
    const again = await client.newOrder([name])
    assert.equal(again.json.status, 'ready')
    assert.equal(zone.asked(name), 1)
  })

  test('expires shows the TTL, and a new order after that proves control again with the same record (§7.8)', async () => {
    const name = 'ttl.example'
    zone.publish(name, record, 600)
    const first = await authorize(client, [name])
    const left = secondsFromNow(first.authorizations[0] as Answer)
    assert.ok(left > 400 && left <= 600, `${left}`)
    await finalize(client, first.order, [name])

    const second = await authorize(client, [name])
    assert.notEqual(second.order.json.authorizations[0], first.order.json.authorizations[0])
    assert.equal(second.order.json.status, 'ready')
    assert.equal(zone.asked(name), 2)
    zone.remove(name)
    await finalize(client, second.order, [name])
    const third = await client.newOrder([name])
    const { detail } = await firstError(client, third)
    assert.match(detail, /NXDOMAIN/, 'the record is gone')
  })

  test('a TTL of zero is enough to finalize, and not for another order', async () => {
    const name = 'ttl-zero.example'
    zone.publish(name, record, 0)
    const { order, authorizations } = await authorize(client, [name])
    const left = secondsFromNow(authorizations[0] as Answer)
    assert.ok(left > 10 && left <= 60, `${left}`)
    await finalize(client, order, [name])
    assert.equal((await client.newOrder([name])).json.status, 'pending')
  })

  test('expires never reaches past persistUntil', async () => {
    const until = unixTime(900)
    zone.publish('until.example', `${record}; persistUntil=${until}`, 24 * HOUR)
    const { authorizations } = await authorize(client, ['until.example'])
    const expires = Date.parse((authorizations[0] as Answer).json.expires) / 1000
    assert.ok(expires <= until && expires > until - 10, `${expires - until}`)
  })

  test('an authorization that persistUntil has ended takes the order with it', async () => {
    const validFor = async (seconds: number) => {
      const name = `in-${seconds}.example`
      zone.publish(name, `${record}; persistUntil=${unixTime(seconds)}`)
      const { order, authorizations } = await authorize(client, [name])
      return (authorizations[0] as Answer).json.status === 'valid' ? { name, order } : undefined
    }
    // On a machine that stands still, the shorter ones are over before they are seen.
    const { name, order } = (await validFor(8)) ?? (await validFor(30)) ?? assert.fail('it was never valid')
    const url = order.json.authorizations[0]
    await until('it has ended', async () => (await client.post(url)).json.status !== 'valid')
    assert.equal((await client.post(url)).json.status, 'expired')
    const finalized = await client.post(order.json.finalize, { csr: await csrFor([name]) })
    assert.equal(finalized.json.type, `${PROBLEM}orderNotReady`)
  })

  test('a wildcard needs policy=wildcard (§5)', async () => {
    zone.publish('wild.example', `${record}; policy=wildcard`)
    const { order } = await authorize(client, ['*.wild.example', 'wild.example'])
    assert.equal(order.json.status, 'ready')
    const certificate = await finalize(client, order, ['*.wild.example', 'wild.example'])
    assert.ok(certificate.checkHost('x.wild.example') && certificate.checkHost('wild.example'))

    zone.publish('tame.example', record)
    const refused = await authorize(client, ['*.tame.example'])
    assert.equal(refused.order.json.status, 'invalid')
    const { type, detail } = errorOf(refused.authorizations[0] as Answer)
    assert.equal(type, `${PROBLEM}unauthorized`)
    assert.match(detail, /^TXT _validation-persist\.tame\.example: the record lacks policy=wildcard/)
    assert.equal((await authorize(client, ['tame.example'])).order.json.status, 'ready', 'the name itself is proven')
  })

  test('a record above is not asked for unless the operator allows it', async () => {
    zone.publish('above.example', `${record}; policy=wildcard`)
    const { detail } = await firstError(client, await client.newOrder(['www.above.example']))
    assert.match(detail, /^TXT _validation-persist\.www\.above\.example: /)
    assert.equal(zone.asked('above.example'), 0)
  })

  test('a missing record is looked for again, with the last error shown meanwhile', async () => {
    const name = 'late.example'
    const order = await client.newOrder([name])
    const { detail } = await firstError(client, order)
    assert.match(detail, /^TXT _validation-persist\.late\.example: .*NXDOMAIN/)
    const authorizationUrl = order.json.authorizations[0]
    const polled = await client.post(challengeOf(await client.post(authorizationUrl)).url)
    assert.equal(polled.json.status, 'processing')
    assert.ok(Number(polled.headers['retry-after']) > 0)
    zone.publish(name, record)
    assert.equal((await client.settled(authorizationUrl)).json.status, 'valid')
  })

  test('a malformed record is malformed, a record that has expired unauthorized, both at once (§9.3.1)', async () => {
    const rows = [
      ['broken.example', `${record}; persistUntil=tomorrow`, 'malformed'],
      ['twice.example', `${record}; accounturi=${client.kid}`, 'malformed'],
      ['over.example', `${record}; persistUntil=1767225600`, 'unauthorized'],
    ] as const
    for (const [name, text, problem] of rows) {
      zone.publish(name, text)
      const { order, authorizations } = await authorize(client, [name])
      assert.equal(order.json.status, 'invalid')
      assert.equal(errorOf(authorizations[0] as Answer).type, `${PROBLEM}${problem}`)
      assert.equal(zone.asked(name), 1)
    }
  })

  test('several records: other issuers, other accounts and broken ones do no harm (§4.3)', async () => {
    const name = 'crowded.example'
    zone.publish(name, 'other.example; accounturi=https://other.example/1')
    zone.publish(name, 'v=spf1 -all')
    zone.publish(name, `${ISSUER}; accounturi=${client.kid.slice(0, -3)}ff0`)
    zone.publish(name, `${ISSUER}; accounturi`)
    zone.publish(name, `second.example; accounturi=${client.kid}`)
    assert.equal((await authorize(client, [name])).order.json.status, 'ready')
  })

  test('another account cannot use the record', async () => {
    const name = 'mine.example'
    zone.publish(name, record)
    const other = await registeredClient(service.directoryUrl)
    const { type, detail } = await firstError(other, await other.newOrder([name]))
    assert.equal(type, `${PROBLEM}unauthorized`)
    assert.match(detail, /for another account than/)
    assert.equal((await authorize(client, [name])).order.json.status, 'ready')
  })

  test('a key change leaves the record as good as it was, a deactivated account ends it (§7.2.1, §7.10)', async () => {
    const name = 'rollover.example'
    const before = await registeredClient(service.directoryUrl)
    zone.publish(name, `${ISSUER}; accounturi=${before.kid}`, 60)
    assert.equal((await authorize(before, [name])).order.json.status, 'ready')
    const after = await withNewKey(before, newAccountKey())
    assert.equal((await authorize(after, [name])).order.json.status, 'ready')

    const order = await after.newOrder([name], { notAfter: new Date(Date.now() + 24 * HOUR * 1000).toISOString() })
    const authorization = await after.post(order.json.authorizations[0])
    await after.post(after.kid, { status: 'deactivated' })
    const refused = await after.post(challengeOf(authorization).url, {})
    assert.equal(refused.status, 401)
  })

  test('a pre-authorized name is proven by it, within the TTL', async () => {
    zone.publish('pre.example', record)
    const made = await client.post(client.directory['newAuthz'] as string, {
      identifier: { type: 'dns', value: 'pre.example' },
    })
    assert.equal(made.status, 201)
    await client.post(challengeOf(made).url, {})
    const settled = await client.settled(String(made.headers.location))
    assert.equal(settled.json.status, 'valid')
    assert.ok(secondsFromNow(settled) <= 2 * HOUR)
    assert.equal((await client.newOrder(['pre.example'])).json.status, 'ready')
  })
})
