/** Certificate profiles (draft-ietf-acme-profiles). */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { locationOf } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const lifetimeDays = (der: Buffer) => {
  const { validFrom, validTo } = new X509Certificate(der)
  return Math.round((Date.parse(validTo) - Date.parse(validFrom)) / 86_400_000)
}

describe('profiles', () => {
  const { responder, client } = acmeScene('profiles')

  test('the directory describes them in its meta (§3)', () => {
    const { meta } = client.directory as unknown as { meta: { profiles: object } }
    assert.deepEqual(meta.profiles, {
      default: 'For servers',
      short: 'Six days',
      long: 'Ninety days',
      free: 'For anything',
    })
  })

  test('the order shows the profile that was asked for, each time it is read (§4)', async () => {
    const order = await client.newOrder(['short.test'], { profile: 'short' })
    assert.equal(order.status, 201)
    assert.equal(order.json.profile, 'short')
    assert.equal((await client.post(locationOf(order))).json.profile, 'short')
  })

  test('an order without a profile is given the default one, and says so (§4)', async () => {
    assert.equal((await client.newOrder(['default-profile.test'])).json.profile, 'default')
  })

  test('a profile that is not advertised is invalidProfile (§4)', async () => {
    for (const profile of ['longer', 'Default', '__proto__', 'toString']) {
      const answer = await client.newOrder(['no-profile.test'], { profile })
      assert.equal(answer.status, 400)
      assert.equal(answer.json.type, `${PROBLEM}invalidProfile`, profile)
    }
  })

  test('a chosen profile that the requested period does not fit is invalidProfile, the default one malformed (§4)', async () => {
    const notAfter = new Date(Date.now() + 30 * 86_400_000).toISOString()
    const chosen = await client.newOrder(['month.test'], { profile: 'short', notAfter })
    assert.equal(chosen.json.type, `${PROBLEM}invalidProfile`)
    assert.match(chosen.json.detail ?? '', /at most 7 days/)

    const tooLong = new Date(Date.now() + 4000 * 86_400_000).toISOString()
    assert.equal((await client.newOrder(['month.test'], { notAfter: tooLong })).json.type, `${PROBLEM}malformed`)
    assert.equal((await client.newOrder(['month.test'], { notAfter })).status, 201)
  })

  test('a profile that is no string is malformed', async () => {
    for (const profile of [1, ['short'], {}])
      assert.equal((await client.newOrder(['no-profile.test'], { profile })).json.type, `${PROBLEM}malformed`)
  })

  test('the certificate is made under the profile of its order', async () => {
    assert.equal(
      lifetimeDays((await client.obtain(['six-days.test'], responder, { order: { profile: 'short' } })).der),
      6,
    )
    assert.ok(lifetimeDays((await client.obtain(['ninety-days.test'], responder)).der) > 6)
  })

  test('a profile whose usages do not fit the key gives a certificate without the extension', async () => {
    const { der } = await client.obtain(['no-usage.test'], responder, { order: { profile: 'free' } })
    assert.deepEqual(parseCertificate(der).tbs.keyUsages, [])
  })

  test('the same names under another profile are another order', async () => {
    const short = await client.newOrder(['two-profiles.test'], { profile: 'short' })
    const normal = await client.newOrder(['two-profiles.test'])
    assert.notEqual(locationOf(short), locationOf(normal))
  })
})
