/** Limits of new orders, and the replacements that they do not count (RFC 9773 §5; docs/decisions/renewal-information.md). */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import {
  type AcmeClient,
  JOSE,
  locationOf,
  newAccountKey,
  registeredClient,
  revoke,
  send,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { age } from '../support/aged-certificate.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { HOUR, limit } from '../support/rate-limits.ts'

/** So few that the orders of this file run into it, where they are not exempt. */
const NEW_ORDERS = 3

describe('limits of new orders', () => {
  const { service, responder } = acmeScene('limits')
  let addresses = 0
  before(async () => {
    const few = { requests: NEW_ORDERS, window_seconds: HOUR }
    await limit(service, { new_order: few, new_order_per_identifier: few })
  })

  /** Asks for its orders from an address of its own. */
  async function aClient(): Promise<AcmeClient> {
    const client = await registeredClient(service.directoryUrl)
    const address = `192.0.2.${++addresses}`
    const url = client.directory['newOrder'] as string
    client.newOrder = async (names, more = {}) => {
      const payload = { identifiers: names.map((value) => ({ type: 'dns', value })), ...more }
      const body = JSON.stringify(await client.jws(url, { payload }))
      return send({ url, headers: { ...JOSE, 'X-Forwarded-For': address }, body })
    }
    return client
  }

  async function obtained(client: AcmeClient, name: string, more: object = {}): Promise<Buffer> {
    return (await client.obtain([name], responder, { order: more })).der
  }

  async function useUpAddress(client: AcmeClient): Promise<void> {
    for (let i = 0; i < NEW_ORDERS; i++) await client.newOrder([`filling-${addresses}-${i}.test`])
    assert.equal((await client.newOrder(['plain.test'])).status, 429)
  }

  test('do not count the renewal of a certificate whose renewal window is open, once (RFC 9773 §5)', async () => {
    const client = await aClient()
    const der = await obtained(client, 'due.test')
    await age(service, der)
    await useUpAddress(client)
    const renewed = await client.newOrder(['due.test'], { replaces: certIdOf(der) })
    assert.equal(renewed.status, 201, renewed.text)
    // One certificate is not leave for any number of orders that come to nothing.
    for (const url of renewed.json.authorizations) await client.post(url, { status: 'deactivated' })
    assert.equal((await client.post(locationOf(renewed))).json.status, 'invalid')
    assert.equal((await client.newOrder(['due.test'], { replaces: certIdOf(der) })).status, 429)
  })

  test('do not count its names when the certificate is issued', async () => {
    const client = await aClient()
    const der = await obtained(client, 'names.test')
    for (let i = 1; i < NEW_ORDERS; i++) await obtained(await aClient(), 'names.test')
    assert.equal((await (await aClient()).newOrder(['names.test'])).status, 429, 'the name has nothing left')
    await age(service, der)
    await obtained(client, 'names.test', { replaces: certIdOf(der) })
  })

  test('count a chain of replacements whose windows are not open, and certify it no further', async () => {
    const name = 'chain.test'
    const client = await aClient()
    let der = await obtained(client, name)
    for (let i = 1; i < NEW_ORDERS; i++) der = await obtained(client, name, { replaces: certIdOf(der) })
    const one = await client.newOrder([name], { replaces: certIdOf(der) })
    assert.equal(one.status, 429, 'the address has nothing left, nor has the name')
  })

  test('count the replacement of a certificate that its subscriber revoked, or asked to end at once', async () => {
    const client = await aClient()
    const revoked = await obtained(client, 'revoked.test')
    assert.equal((await revoke(client, revoked)).status, 200)
    const notAfter = `${new Date(Date.now() + 600_000).toISOString().slice(0, 19)}Z`
    const brief = await obtained(client, 'brief.test', { notAfter })
    await useUpAddress(client)
    for (const [name, der] of Object.entries({ 'revoked.test': revoked, 'brief.test': brief }))
      assert.equal((await client.newOrder([name], { replaces: certIdOf(der) })).status, 429, name)
  })

  test('count an order that names more than the certificate it replaces', async () => {
    const client = await aClient()
    const der = await obtained(client, 'alone.test')
    await age(service, der)
    await useUpAddress(client)
    const more = await client.newOrder(['alone.test', 'stranger.test'], { replaces: certIdOf(der) })
    assert.equal(more.status, 429, more.text)
  })

  test('are no wider for who writes "replaces": as many signatures are looked at, and no more', async () => {
    const client = await aClient()
    await useUpAddress(client)
    const url = client.directory['newOrder'] as string
    const forged = async () => {
      const payload = { identifiers: [], replaces: 'AQ.AQ' }
      const jws = await client.jws(url, { payload, key: newAccountKey() })
      return send({
        url,
        headers: { ...JOSE, 'X-Forwarded-For': `192.0.2.${addresses}` },
        body: JSON.stringify(jws),
      })
    }
    const statuses: number[] = []
    for (let i = 0; i < NEW_ORDERS + 2; i++) statuses.push((await forged()).status)
    assert.deepEqual(statuses, [...Array.from({ length: NEW_ORDERS }, () => 403), 429, 429])
  })
})
