/**
 * Which fault is told when a request has several: the order at the head of `src/acme/gate.ts`, row by row.
 *
 * Each request has the fault of its row and all that are checked later, so that only the right order gives the right problem.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AcmeClient, type Answer, newAccountKey, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { rowsIn } from '../support/database.ts'
import { operate } from '../support/operator.ts'
import { HOUR, limit } from '../support/rate-limits.ts'
import { until } from '../support/until.ts'

describe('of several faults the first in this order is told', () => {
  const { service } = acmeScene('limits')
  let url: string
  /** Without agreement to the terms that came later. */
  let client: AcmeClient
  let deactivated: AcmeClient
  let usedNonce: string

  before(async () => {
    // Each request comes from an address of its own, as far as the limit is concerned.
    await limit(service, { new_order: { requests: 1, window_seconds: HOUR } })
    const { directoryUrl } = service
    client = await registeredClient(directoryUrl)
    url = client.directory['newOrder'] as string
    await rowsIn(service.database, `UPDATE accounts SET terms_version = '1' WHERE id = $1`, [client.kid.slice(-36)])
    // Front threads keep an account until it changes.
    assert.equal((await client.post(client.kid, { contact: ['mailto:a@b.test'] })).status, 200)
    await until('the agreement is of an earlier version', async () => (await sendWith(new Set())).status === 403)
    deactivated = await registeredClient(directoryUrl)
    await deactivated.post(deactivated.kid, { status: 'deactivated' })
    usedNonce = await client.nonce()
    assert.equal((await client.post(client.kid, undefined, { header: { nonce: usedNonce } })).status, 200)
    await maintenance('on')
  })
  after(async () => {
    await maintenance('off')
  })

  async function maintenance(position: 'on' | 'off'): Promise<void> {
    await operate(service, 'maintenance', position)
    const isOn = async () => (await send({ method: 'GET', url: `${service.baseUrl}/healthz` })).json.maintenance_mode
    await until(`maintenance is ${position}`, async () => (await isOn()) === (position === 'on'))
  }

  const FAULTS = [
    'method',
    'media type',
    'form',
    'algorithm',
    'url',
    'nonce form',
    'rate limit',
    'key',
    'signature',
    'nonce',
    'account',
    'payload',
    'maintenance',
    'terms',
  ] as const
  type Fault = (typeof FAULTS)[number]

  let addresses = 0
  let address = ''

  async function sendWith(faults: ReadonlySet<Fault>): Promise<Answer> {
    const signer = faults.has('account') ? deactivated : client
    const header = {
      kid: faults.has('key') ? client.kid.replace(/.{12}$/, '000000000000') : signer.kid,
      url: faults.has('url') ? `${url}/elsewhere` : url,
      ...(faults.has('nonce') && { nonce: usedNonce }),
      ...(faults.has('nonce form') && { nonce: 'Zm9yZ2VkLWJ5LXN0cmFuZ2VyMQ' }),
      ...(faults.has('algorithm') && { alg: 'HS256' }),
    }
    const payload = faults.has('payload') ? { identifiers: 'all' } : { identifiers: [{ type: 'dns', value: 'a.test' }] }
    const key = faults.has('signature') ? newAccountKey() : signer.key
    const jws = await signer.jws(url, { payload, header, key })
    return send({
      url,
      method: faults.has('method') ? 'PUT' : 'POST',
      headers: {
        'X-Forwarded-For': faults.has('rate limit') && address ? address : `192.0.2.${++addresses}`,
        'Content-Type': faults.has('media type') ? 'application/json' : 'application/jose+json',
      },
      body: JSON.stringify(faults.has('form') ? { ...jws, signature: `${jws.signature}==` } : jws),
    })
  }

  const EXPECTED: Record<Fault, [number, string, RegExp]> = {
    method: [405, 'malformed', /answers POST/],
    'media type': [415, 'malformed', /Content-Type/],
    form: [400, 'malformed', /signature member/],
    algorithm: [400, 'badSignatureAlgorithm', /alg is not accepted/],
    url: [403, 'unauthorized', /the url of the protected header/],
    'nonce form': [400, 'badNonce', /unknown, used or expired/],
    'rate limit': [429, 'rateLimited', /rate limit new_order/],
    key: [400, 'accountDoesNotExist', /kid is not/],
    signature: [403, 'unauthorized', /signature does not verify/],
    nonce: [400, 'badNonce', /unknown, used or expired/],
    account: [401, 'unauthorized', /account is deactivated/],
    payload: [400, 'malformed', /payload\.identifiers/],
    maintenance: [503, 'serverInternal', /in maintenance/],
    terms: [403, 'userActionRequired', /terms of service/],
  }

  async function assertTold(fault: Fault): Promise<void> {
    const later = FAULTS.slice(FAULTS.indexOf(fault))
    const { status, json, text } = await sendWith(new Set(later))
    const [expectedStatus, type, detail] = EXPECTED[fault]
    assert.equal(`${status} ${json.type}`, `${expectedStatus} urn:ietf:params:acme:error:${type}`, text)
    assert.match(json.detail, detail)
  }

  for (const fault of FAULTS.slice(0, FAULTS.indexOf('terms')))
    if (fault !== 'rate limit') test(fault, () => assertTold(fault))

  test('rate limit and terms, once maintenance is over', async () => {
    await maintenance('off')
    await assertTold('terms')
    await operate(service, 'terms', 'accept', '--account', client.kid.slice(-36))
    address = '198.51.100.1'
    const jws = await client.jws(url, { payload: { identifiers: [{ type: 'dns', value: 'a.test' }] } })
    const headers = { 'X-Forwarded-For': address, 'Content-Type': 'application/jose+json' }
    assert.equal((await send({ url, headers, body: JSON.stringify(jws) })).status, 201, 'the limit is one')
    await maintenance('on')
    await assertTold('rate limit')
    await assertTold('nonce form')
  })
})
