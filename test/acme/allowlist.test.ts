/** Identifiers that an operator allows to an account (security.identifier_policy.enforce_account_allowlist). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AcmeClient, type Answer, createAcmeClient, csrFor, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { bindingFor, chancery, createCredential, operate } from '../support/operator.ts'

const REJECTED = 'urn:ietf:params:acme:error:rejectedIdentifier'
const idOf = (client: AcmeClient) => client.kid.split('/').at(-1) as string

function assertRejected(answer: Answer, detail: RegExp): void {
  assert.equal(answer.json.type, REJECTED, answer.text)
  assert.equal(answer.status, 400)
  assert.equal(answer.json.subproblems, undefined)
  assert.match(answer.json.detail, detail)
}

describe('allowlists of accounts', () => {
  const { service, responder } = acmeScene('allowlists')

  const allow = (client: AcmeClient, ...patterns: string[]) =>
    operate(service, 'accounts', 'allow', idOf(client), ...patterns)

  test('an account without entries may order nothing', async () => {
    const client = await registeredClient(service.directoryUrl)
    assertRejected(await client.newOrder(['a.test']), /^a\.test is not among the identifiers allowed to this account$/)
  })

  test('several names that are not allowed are one compound problem with a subproblem each', async () => {
    const client = await registeredClient(service.directoryUrl)
    await allow(client, 'b.test')
    const answer = await client.newOrder(['a.test', 'b.test', 'c.test'])
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:compound', answer.text)
    assert.deepEqual(
      answer.json.subproblems.map(({ type, identifier }: { type: string; identifier: object }) => [type, identifier]),
      [
        [REJECTED, { type: 'dns', value: 'a.test' }],
        [REJECTED, { type: 'dns', value: 'c.test' }],
      ],
    )
  })

  test('pre-authorization asks the same list (§7.4.1)', async () => {
    const client = await registeredClient(service.directoryUrl)
    const url = client.directory['newAuthz'] as string
    const preAuthorize = (value: string) => client.post(url, { identifier: { type: 'dns', value } })
    assertRejected(await preAuthorize('pre.test'), /not among/)
    await allow(client, 'pre.test')
    assert.equal((await preAuthorize('pre.test')).status, 201)
  })

  test('the list is asked once more at finalize, and the order stays ready', async () => {
    const client = await registeredClient(service.directoryUrl)
    await allow(client, 'late.test')
    const order = await client.newOrder(['late.test'])
    await client.authorize(order, responder)
    await operate(service, 'accounts', 'disallow', idOf(client), 'late.test')
    const csr = await csrFor(['late.test'])
    assertRejected(await client.post(order.json.finalize, { csr }), /^late\.test is not among/)
    assert.equal((await client.post(String(order.headers.location))).json.status, 'ready')
    await allow(client, 'late.test')
    assert.equal((await client.post(order.json.finalize, { csr })).status, 200)
  })

  test('one account does not live by the list of another', async () => {
    const [one, two] = [await registeredClient(service.directoryUrl), await registeredClient(service.directoryUrl)]
    await allow(one, 'mine.test')
    assert.equal((await one.newOrder(['mine.test'])).status, 201)
    assertRejected(await two.newOrder(['mine.test']), /not among/)
  })

  test('an account gets the identifiers of the credential it registers with', async () => {
    const credential = await createCredential(service, 'copied', '--allow', '*.copied.test', '192.0.2.0/24')
    const client = await createAcmeClient(service.directoryUrl)
    await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    assert.equal((await client.newOrder(['a.copied.test', '192.0.2.7'])).status, 201)
    assertRejected(await client.newOrder(['a.other.test']), /not among/)
    const printed = await operate(service, 'accounts', 'allowed', idOf(client))
    assert.match(printed, /^ip +192\.0\.2\.0\/24 .*\ndns +\*\.copied\.test /m)
  })

  test('the command line refuses what is no identifier, and what is no account', async () => {
    const client = await registeredClient(service.directoryUrl)
    const wrong: [string[], RegExp][] = [
      [['allow', idOf(client), 'a..test'], /"a\.\.test" is not made of labels/],
      [['allow', idOf(client), '192.0.2.1/24'], /has bits set behind its prefix/],
      [['allow', idOf(client), '192.0.2.0/33'], /prefix length must be 0 to 32/],
      [['allow', idOf(client)], /at least one identifier/],
      [['allow', 'nobody', 'a.test'], /is no account id/],
      [['allow', '01938c4e-0000-7000-8000-000000000000', 'a.test'], /there is no account/],
    ]
    for (const [words, message] of wrong) {
      const { code, stderr } = await chancery(service, 'accounts', ...words)
      assert.equal(code, /there is no account/.test(stderr) ? 1 : 2, words.join(' '))
      assert.match(stderr, message)
    }
    const { code, stdout } = await chancery(service, 'accounts', 'disallow', idOf(client), 'a.test')
    assert.equal(code, 1)
    assert.match(stdout, /missing {2}a\.test was not allowed/)
  })
})
