/** Terms of service that change after an account agreed (RFC 8555 §7.3.3). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  closeConnections,
  createAcmeClient,
  JOSE,
  registeredClient,
  send,
} from '../support/acme-client.ts'
import { chancery } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'

const TERMS = 'https://ca.example.test/terms'
const INSTRUCTIONS = 'https://ca.example.test/how-to-agree'

const terms = (over: object) => ({ config: { tos: { url: TERMS, require_agreement: true, ...over } } })

function assertRefused(answer: Answer): void {
  assert.equal(answer.status, 403, answer.text)
  assert.equal(answer.json.type, 'urn:ietf:params:acme:error:userActionRequired')
  assert.equal(answer.json.instance, INSTRUCTIONS)
  assert.deepEqual(answer.links['terms-of-service'], [TERMS])
}

describe('terms of a new version', () => {
  let former: TestService
  let service: TestService
  let clients: AcmeClient[]
  before(async () => {
    former = await startTestService({ ...terms({ version: '2026-01' }), fronts: 1 })
    clients = await Promise.all([1, 2, 3].map(() => registeredClient(former.directoryUrl)))
    for (const client of clients) assert.equal((await client.newOrder(['before.test'])).status, 201)
    closeConnections()
    await former.stop()
    service = await startTestService({
      ...terms({ version: '2026-02', instructions_url: INSTRUCTIONS }),
      continueFrom: former,
    })
  })
  after(async () => {
    closeConnections()
    await service.dispose()
    await former.dispose()
  })

  const again = async ({ key, kid }: AcmeClient) => {
    const client = await createAcmeClient(service.directoryUrl, key)
    client.kid = kid
    return client
  }

  test('orders and pre-authorizations are userActionRequired, with the terms and where to agree', async () => {
    const client = await again(clients[0] as AcmeClient)
    assertRefused(await client.newOrder(['after.test']))
    const identifier = { type: 'dns', value: 'after.test' }
    assertRefused(await client.post(client.directory['newAuthz'] as string, { identifier }))
  })

  test('the nonce of a request that is refused is used up (§6.5)', async () => {
    const client = await again(clients[0] as AcmeClient)
    const url = client.directory['newOrder'] as string
    const body = JSON.stringify(
      await client.jws(url, { payload: { identifiers: [{ type: 'dns', value: 'nonce.test' }] } }),
    )
    assertRefused(await send({ url, headers: JOSE, body }))
    const repeated = await send({ url, headers: JOSE, body })
    assert.equal(repeated.json.type, 'urn:ietf:params:acme:error:badNonce', repeated.text)
  })

  test('everything else goes on: the account, its orders, its contacts', async () => {
    const client = await again(clients[0] as AcmeClient)
    assert.equal((await client.post(client.kid)).status, 200)
    assert.equal((await client.post(`${client.kid}/orders`)).json.orders.length, 1)
    assert.equal((await client.post(client.kid, { contact: ['mailto:a@example.test'] })).status, 200)
  })

  test('an update, a look-up and a registration without agreement change nothing (§7.3.2)', async () => {
    const client = await again(clients[0] as AcmeClient)
    const newAccount = client.directory['newAccount'] as string
    assert.equal((await client.post(client.kid, { termsOfServiceAgreed: true })).status, 200)
    for (const payload of [
      { onlyReturnExisting: true, termsOfServiceAgreed: true },
      { termsOfServiceAgreed: false },
      {},
    ])
      assert.equal((await client.post(newAccount, payload, { withJwk: true })).status, 200)
    assertRefused(await client.newOrder(['after.test']))
  })

  test('a registration with the same key and agreement counts at once, on every thread', async () => {
    const client = await again(clients[0] as AcmeClient)
    const agreed = await client.post(
      client.directory['newAccount'] as string,
      { termsOfServiceAgreed: true },
      { withJwk: true },
    )
    assert.equal(agreed.status, 200)
    assert.equal(agreed.headers.location, client.kid)
    assert.equal(agreed.json.termsOfServiceAgreed, true)
    const orders = await Promise.all(Array.from({ length: 16 }, (_, i) => client.newOrder([`agreed${i}.test`])))
    assert.deepEqual([...new Set(orders.map(({ status }) => status))], [201])
  })

  test('a new account agrees to the version in force', async () => {
    const client = await registeredClient(service.directoryUrl)
    assert.equal((await client.newOrder(['new.test'])).status, 201)
  })

  test('the operator can record an agreement, for one account or for all', async () => {
    const [, second, third] = (await Promise.all(clients.map(again))) as [AcmeClient, AcmeClient, AcmeClient]
    const id = second.kid.split('/').at(-1) as string
    assert.match((await chancery(service, 'terms', 'accept', '--account', id)).stdout, /has agreed to 2026-02/)
    assert.equal((await second.newOrder(['second.test'])).status, 201)
    assertRefused(await third.newOrder(['third.test']))
    assert.match((await chancery(service, 'terms', 'accept', '--all')).stdout, /^1 accounts? ha(s|ve) now agreed/)
    assert.equal((await third.newOrder(['third.test'])).status, 201)
  })

  test('the command wants one of both, a version and an account', async () => {
    assert.equal((await chancery(service, 'terms', 'accept')).code, 2)
    const unknown = await chancery(service, 'terms', 'accept', '--account', '01938c4e-0000-7000-8000-000000000000')
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /there is no account 01938c4e/)
  })
})
