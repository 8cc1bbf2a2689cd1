/** Accounts: registration, terms, update, deactivation, key change (RFC 8555 §7.3). */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import {
  type AccountKeyPair,
  base64url,
  changeKey,
  createAcmeClient,
  locationOf,
  newAccountKey,
  problemOf,
  registeredClient,
  withKey,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { bindingFor, chancery } from '../support/operator.ts'
import { TERMS_URL } from '../support/shared-service.ts'

/** Enough requests at once to reach every front thread, whichever connection belongs to which. */
function onManyConnections<T>(send: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: 16 }, send))
}

describe('accounts', () => {
  const { service, responder } = acmeScene('limits')

  test('a new account is 201 with its URL, its object and a link to the terms (§7.3)', async () => {
    const client = await createAcmeClient(service.directoryUrl)
    const answer = await client.newAccount({ contact: ['mailto:admin@example.test'], termsOfServiceAgreed: true })
    assert.equal(answer.status, 201, answer.text)
    assert.equal(answer.headers['content-type'], 'application/json')
    assert.match(locationOf(answer), new RegExp(`^${service.baseUrl}/acct/[0-9a-f-]{36}$`))
    assert.deepEqual(answer.json, {
      status: 'valid',
      contact: ['mailto:admin@example.test'],
      termsOfServiceAgreed: true,
      orders: `${locationOf(answer)}/orders`,
    })
    assert.deepEqual(answer.links, { index: [service.directoryUrl], 'terms-of-service': [TERMS_URL] })
  })

  for (const alg of ['ES256', 'ES384', 'ES512', 'RS256', 'EdDSA'] as const) {
    test(`an ${alg} key registers and signs (§6.2)`, async () => {
      const client = await registeredClient(service.directoryUrl, newAccountKey(alg))
      assert.equal((await client.post(client.kid)).status, 200)
    })
  }

  test('the key of an account finds it: 200, the same URL, nothing changed (§7.3.1)', async () => {
    const client = await createAcmeClient(service.directoryUrl)
    const made = await client.newAccount({ contact: ['mailto:a@example.test'], termsOfServiceAgreed: true })
    for (const payload of [{ contact: ['mailto:b@example.test'] }, { onlyReturnExisting: true }, {}]) {
      const found = await client.newAccount(payload)
      assert.equal(found.status, 200)
      assert.equal(locationOf(found), locationOf(made))
      assert.deepEqual(found.json, made.json)
    }
  })

  test('another spelling of a key is the same key (RFC 7638 §3)', async () => {
    const key = newAccountKey('RS256')
    const client = await registeredClient(service.directoryUrl, key)
    const n = Buffer.concat([Buffer.of(0), Buffer.from(key.jwk['n'] as string, 'base64url')])
    const jwk = { use: 'sig', kid: 'mine', e: 'AAEAAQ', n: base64url(n), kty: 'RSA' }
    const found = await client.post(client.directory['newAccount'] as string, {}, { header: { kid: undefined, jwk } })
    assert.equal(found.status, 200, found.text)
    assert.equal(locationOf(found), client.kid)
  })

  test('parallel registrations of one key make one account (§7.3.1)', async () => {
    const client = await createAcmeClient(service.directoryUrl)
    const url = client.directory['newAccount'] as string
    const answers = await onManyConnections(() => client.post(url, { termsOfServiceAgreed: true }, { withJwk: true }))
    assert.equal(new Set(answers.map(locationOf)).size, 1)
    assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(15).fill(200), 201])
  })

  test('without agreement to the terms no account is made, and the problem links to them (§7.3.3)', async () => {
    const client = await createAcmeClient(service.directoryUrl)
    for (const payload of [{}, { termsOfServiceAgreed: false }]) {
      const answer = await client.newAccount(payload)
      assert.equal(problemOf(answer), '403 userActionRequired')
      assert.deepEqual(answer.links['terms-of-service'], [TERMS_URL])
    }
    assert.equal(problemOf(await client.newAccount({ onlyReturnExisting: true })), '400 accountDoesNotExist')
  })

  test('a binding is passed over where no secret is set, as there can be no credentials (§7.3.4)', async () => {
    const client = await createAcmeClient(service.directoryUrl)
    const externalAccountBinding = bindingFor(client, { kid: 'any', hmacKey: randomBytes(32) })
    const answer = await client.newAccount({ externalAccountBinding, termsOfServiceAgreed: true })
    assert.equal(answer.status, 201)
    assert.ok(!('externalAccountBinding' in answer.json))
    const { code, stderr } = await chancery(service, 'eab', 'create', '--kid', 'x')
    assert.equal(code, 1)
    assert.match(stderr, /set acme\.eab_key_file or admin_api\.token_secret/)
  })

  test('the directory names the terms (§7.1.1)', async () => {
    const client = await createAcmeClient(service.directoryUrl)
    assert.deepEqual(client.directory['meta'], { termsOfService: TERMS_URL, externalAccountRequired: false })
  })

  test('an update changes the contacts and ignores what a client may not set (§7.3.2)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const updated = await client.post(client.kid, {
      contact: ['mailto:new@example.test'],
      status: 'revoked',
      orders: 'https://elsewhere.test',
      termsOfServiceAgreed: false,
      somethingElse: [1],
    })
    assert.equal(updated.status, 200)
    assert.equal(locationOf(updated), client.kid)
    assert.deepEqual(updated.json, {
      status: 'valid',
      contact: ['mailto:new@example.test'],
      termsOfServiceAgreed: true,
      orders: `${client.kid}/orders`,
    })
    const emptied = await client.post(client.kid, { contact: [] })
    assert.equal('contact' in emptied.json, false)
  })

  test('an update is seen on every connection at once (§7.3.2)', async () => {
    const client = await registeredClient(service.directoryUrl)
    await onManyConnections(() => client.post(client.kid))
    await client.post(client.kid, { contact: ['mailto:new@example.test'] })
    for (const { json } of await onManyConnections(() => client.post(client.kid)))
      assert.deepEqual(json.contact, ['mailto:new@example.test'])
  })

  test('a deactivated account is 401 on every connection and for everything (§7.3.6)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const { certificateUrl, der, orderUrl } = await client.obtain(['gone.test'], responder)
    await onManyConnections(() => client.post(client.kid))
    const deactivated = await client.post(client.kid, { status: 'deactivated' })
    assert.equal(deactivated.status, 200)
    assert.equal(deactivated.json.status, 'deactivated')

    const { newOrder, newAuthz, revokeCert } = client.directory as Record<string, string>
    const identifier = { type: 'dns', value: 'gone.test' }
    const requests: [string, object?][] = [
      [client.kid],
      [client.kid, { contact: [] }],
      [client.kid, { status: 'deactivated' }],
      [`${client.kid}/orders`],
      [orderUrl],
      [certificateUrl],
      [newOrder as string, { identifiers: [identifier] }],
      [newAuthz as string, { identifier }],
      [revokeCert as string, { certificate: base64url(der) }],
    ]
    for (const [url, payload] of requests)
      for (const answer of await onManyConnections(() => client.post(url, payload)))
        assert.equal(problemOf(answer), '401 unauthorized', url)
  })

  test('after a key change the new key signs and the old one does not, on every connection (§7.3.5)', async () => {
    const client = await registeredClient(service.directoryUrl)
    await onManyConnections(() => client.post(client.kid))
    const key = newAccountKey('ES384')
    const changed = await changeKey(client, key)
    assert.equal(changed.status, 200, changed.text)
    assert.equal(locationOf(changed), client.kid)
    assert.equal(changed.json.status, 'valid')

    const renewed = await withKey(client, key)
    for (const { status, text } of await onManyConnections(() => renewed.post(client.kid)))
      assert.equal(status, 200, text)
    for (const answer of await onManyConnections(() => client.post(client.kid)))
      assert.match(problemOf(answer), /^403 unauthorized$|^400 badSignatureAlgorithm$/)
  })

  test('a key changed on one connection is known to all before they saw it (§7.3.5)', async () => {
    const client = await registeredClient(service.directoryUrl)
    await onManyConnections(() => client.post(client.kid))
    const key = newAccountKey()
    assert.equal((await changeKey(client, key)).status, 200)
    for (const url of [client.kid, `${client.kid}/orders`])
      for (const answer of await onManyConnections(() => client.post(url)))
        assert.equal(problemOf(answer), '403 unauthorized')
    const renewed = await withKey(client, key)
    const { kid } = await registeredClient(service.directoryUrl, client.key)
    assert.notEqual(kid, renewed.kid, 'the old key is free for an account of its own')
  })

  test('validation after a key change expects the new key (§8.1)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const order = await client.newOrder(['rekeyed.test'])
    const key = newAccountKey()
    await changeKey(client, key)
    const renewed = await withKey(client, key)
    await renewed.authorize(order, responder)
    assert.equal((await renewed.post(locationOf(order))).json.status, 'ready')
  })

  test('of two key changes at once one wins, and the account has its key (§7.3.5)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const keys = [newAccountKey(), newAccountKey()]
    const answers = await Promise.all(keys.map((key) => changeKey(client, key)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 403], answers.map(({ text }) => text).join())
    const winner = keys[answers.findIndex(({ status }) => status === 200)] as AccountKeyPair
    assert.equal((await (await withKey(client, winner)).post(client.kid)).status, 200)
  })
})
