/** Pre-approval: identifiers that need no challenge, because a binding credential says so for its own networks (`eab create --preapprove`). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  createAcmeClient,
  csrFor,
  JOSE,
  locationOf,
  registeredClient,
  send,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { bindingFor, chancery, createCredential, operate } from '../support/operator.ts'
import type { LogLine } from '../support/service.ts'

const TRUSTED = '10.1.2.3'
const idOf = (url: string) => url.split('/').at(-1) as string

describe('pre-approval', () => {
  const { service } = acmeScene('credentials')
  let kids = 0

  /** A client of an account whose credential approves `allowed` from 10.1.0.0/16 and 2001:db8::/32. */
  const aClient = (...allowed: string[]) => aClientFrom(['10.1.0.0/16', '2001:db8::/32'], allowed)

  async function aClientFrom(networks: string[], allowed: string[]): Promise<{ client: AcmeClient; kid: string }> {
    const kid = `office-${++kids}`
    const words = [
      ...allowed.flatMap((pattern) => ['--allow', pattern]),
      ...networks.flatMap((network) => ['--preapprove', network]),
    ]
    const credential = await createCredential(service, kid, ...words)
    const client = await createAcmeClient(service.directoryUrl)
    await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    return { client, kid }
  }

  type Forwarded = string | undefined

  /** As the proxy passes it on. */
  async function postFrom(client: AcmeClient, address: Forwarded, url: string, payload: object): Promise<Answer> {
    const body = JSON.stringify(await client.jws(url, { payload }))
    return send({ url, headers: { ...JOSE, ...(address !== undefined && { 'X-Forwarded-For': address }) }, body })
  }

  const orderFrom = (client: AcmeClient, address: Forwarded, names: string[]) => {
    const identifiers = names.map((value) => ({ type: /^[\d.]+$/.test(value) ? 'ip' : 'dns', value }))
    return postFrom(client, address, client.directory['newOrder'] as string, { identifiers })
  }

  const approvalOf = (orderId: string): Promise<LogLine> =>
    service.untilLogged('the approval', ({ event, orderId: of }) => event === 'identifiers_approved' && of === orderId)

  test('an allowed name from a trusted network is valid at once, and gets its certificate without a challenge', async () => {
    const { client } = await aClient('*.office.test')
    const names = ['a.office.test', '*.office.test']
    const order = await orderFrom(client, TRUSTED, names)
    assert.deepEqual([order.status, order.json.status], [201, 'ready'], order.text)
    for (const url of order.json.authorizations) {
      const { json } = await client.post(url)
      assert.equal(json.status, 'valid')
      for (const challenge of json.challenges) assert.ok(challenge.status === 'valid' && challenge.validated)
    }
    assert.equal((await client.post(order.json.finalize, { csr: await csrFor(names) })).status, 200)
    assert.equal((await client.settled(locationOf(order))).json.status, 'valid')
  })

  test('the log and the authorization say why', async () => {
    const { client, kid } = await aClient('why.office.test')
    const order = await orderFrom(client, TRUSTED, ['why.office.test'])
    const line = await approvalOf(idOf(locationOf(order)))
    const { event, by, network, address, identifiers, accountId, orderId } = line
    assert.deepEqual(
      { event, by, kid: line['kid'], network, address, identifiers, accountId, orderId },
      {
        event: 'identifiers_approved',
        by: 'pre-approval',
        kid,
        network: '10.1.0.0/16',
        address: TRUSTED,
        identifiers: ['why.office.test'],
        accountId: idOf(client.kid),
        orderId: idOf(locationOf(order)),
      },
    )
    const printed = await operate(service, 'inspect', 'order', idOf(locationOf(order)), '--json')
    const { type, result, request_id, steps } = JSON.parse(printed).authorizations[0].evidence
    assert.deepEqual([type, result, request_id], ['pre-approval', 'valid', line['requestId']])
    assert.deepEqual(steps, [{ step: 'credential', kid, network: '10.1.0.0/16', address: TRUSTED }])
  })

  let fromEverywhere: Awaited<ReturnType<typeof aClient>> | undefined
  const cases: [what: string, address: string, name: string, status: string][] = [
    ['an address outside the networks', '10.2.0.1', 'in.office.test', 'pending'],
    ['a name outside the allowlist', TRUSTED, 'out.office.test', 'pending'],
    ['an address of the other family', '2001:db8::7', 'in.office.test', 'ready'],
    ['an IPv4 address as a proxy on IPv6 writes it', '::ffff:10.1.0.7', 'in.office.test', 'ready'],
    ['an IP identifier of the allowlist', TRUSTED, '192.0.2.7', 'ready'],
    ['an IP identifier outside it', TRUSTED, '192.0.3.7', 'pending'],
  ]
  for (const [what, address, name, status] of cases)
    test(`${what}: the order is ${status}`, async () => {
      fromEverywhere ??= await aClient('in.office.test', '192.0.2.0/24')
      const { client } = fromEverywhere
      const order = await orderFrom(client, address, [name])
      assert.deepEqual([order.status, order.json.status], [201, status], order.text)
    })

  let besideProxy: Awaited<ReturnType<typeof aClient>> | undefined
  const fromProxysNetwork: [what: string, address: Forwarded, status: string][] = [
    ['an address that is no proxy', '127.0.0.2', 'ready'],
    ['the proxy itself', '127.0.0.1', 'pending'],
    ['the proxy itself as a proxy on IPv6 writes it', '::ffff:127.0.0.1', 'pending'],
    ['the proxy itself in hexadecimal', '::ffff:7f00:1', 'pending'],
    ['no header', undefined, 'pending'],
  ]
  for (const [what, address, status] of fromProxysNetwork)
    test(`${what}, where the network contains the proxy: the order is ${status}`, async () => {
      besideProxy ??= await aClientFrom(['127.0.0.0/8'], ['beside.office.test'])
      const order = await orderFrom(besideProxy.client, address, ['beside.office.test'])
      assert.deepEqual([order.status, order.json.status], [201, status], order.text)
    })

  test('an order with one name that is not approved waits for that name alone', async () => {
    const { client } = await aClient('one.office.test')
    const order = await orderFrom(client, TRUSTED, ['one.office.test', 'two.office.test'])
    assert.equal(order.json.status, 'pending')
    const statuses = await Promise.all(
      order.json.authorizations.map(async (url: string) => (await client.post(url)).json.status),
    )
    assert.deepEqual(statuses, ['valid', 'pending'])
  })

  test('it concerns no other account, and an order from elsewhere needs its challenge', async () => {
    const { client } = await aClient('*.office.test')
    await orderFrom(client, TRUSTED, ['reuse.office.test'])
    assert.equal((await orderFrom(client, '192.0.2.1', ['reuse.office.test'])).json.status, 'pending')
    const other = await registeredClient(service.directoryUrl)
    assert.equal((await orderFrom(other, TRUSTED, ['reuse.office.test'])).json.status, 'pending')
  })

  test('new-authz is approved in the same way (§7.4.1)', async () => {
    const { client } = await aClient('pre.office.test')
    const url = client.directory['newAuthz'] as string
    const identifier = { type: 'dns', value: 'pre.office.test' }
    assert.equal((await postFrom(client, TRUSTED, url, { identifier })).json.status, 'valid')
    assert.equal((await postFrom(client, '10.2.0.1', url, { identifier })).json.status, 'pending')
  })

  test('a client that goes by its challenge finds nothing left to do', async () => {
    const { client } = await aClient('late.office.test')
    const order = await orderFrom(client, TRUSTED, ['late.office.test'])
    const { json } = await client.post(order.json.authorizations[0])
    const answer = await client.post(json.challenges[0].url, {})
    assert.deepEqual([answer.status, answer.json.status], [200, 'valid'])
  })

  test('the credential approves nothing once it is revoked', async () => {
    const { client, kid } = await aClient('gone.office.test')
    const order = await orderFrom(client, TRUSTED, ['gone.office.test'])
    await operate(service, 'eab', 'revoke', kid)
    const answer = await orderFrom(client, TRUSTED, ['gone.office.test'])
    assert.deepEqual([answer.status, answer.json.type], [401, 'urn:ietf:params:acme:error:unauthorized'])
    const finalized = await client.post(order.json.finalize, { csr: await csrFor(['gone.office.test']) })
    assert.equal(finalized.status, 401)
  })

  const withdrawals: [how: string, withdraw: (kid: string, name: string) => Promise<unknown>][] = [
    ['disallowed to the credential', (kid, name) => operate(service, 'identifiers', 'disallow', name, '--eab', kid)],
    ['deleted', (_kid, name) => operate(service, 'identifiers', 'delete', name)],
  ]
  for (const [index, [how, withdraw]] of withdrawals.entries())
    test(`an open order that was pre-approved ends when its name is ${how}; what was proved stays`, async () => {
      const names = [`withdrawn-${index}.office.test`, `kept-${index}.office.test`]
      const { client, kid } = await aClient(...names)
      const [withdrawn, kept] = await Promise.all(names.map((name) => orderFrom(client, TRUSTED, [name])))
      assert.ok(withdrawn?.json.status === 'ready' && kept?.json.status === 'ready')
      await withdraw(kid, names[0] as string)
      const refused = await client.post(withdrawn.json.finalize, { csr: await csrFor([names[0] as string]) })
      assert.deepEqual(
        [refused.status, refused.json.type],
        [403, 'urn:ietf:params:acme:error:orderNotReady'],
        refused.text,
      )
      assert.equal((await client.post(locationOf(withdrawn))).json.status, 'invalid')
      assert.equal((await client.post(withdrawn.json.authorizations[0])).json.status, 'revoked')
      assert.equal((await client.post(kept.json.finalize, { csr: await csrFor([names[1] as string]) })).status, 200)
    })

  test('inspect account and eab show show the networks', async () => {
    const { client, kid } = await aClient('shown.office.test')
    const account = JSON.parse(await operate(service, 'inspect', 'account', idOf(client.kid), '--json'))
    assert.deepEqual([account.eab_kid, account.preapproved_networks], [kid, ['10.1.0.0/16', '2001:db8::/32']])
    const shown = JSON.parse(await operate(service, 'eab', 'show', kid, '--json'))
    assert.deepEqual(shown.preapproved_networks, ['10.1.0.0/16', '2001:db8::/32'])
  })

  const wrong: [words: string[], message: RegExp][] = [
    [['--preapprove', '10.0.0.0/8'], /--preapprove needs --allow/],
    [['--allow', 'a.test', '--preapprove', '10.0.0.1/8'], /--preapprove: "10\.0\.0\.1\/8" is not a network/],
    [['--allow', 'a.test', '--preapprove', 'office'], /--preapprove: "office" is not an IPv4 or IPv6 address/],
    [['--allow', 'a.test', '--preapprove', '10.0.0.0/8', '11.0.0.0/8'], /11\.0\.0\.0\/8 has no option/],
    [['--profile', 'none'], /--profile: names no profile of ca\.profiles: "none"; there are default/],
  ]
  for (const [words, message] of wrong)
    test(`eab create ${words.join(' ')} is refused`, async () => {
      const { code, stderr } = await chancery(service, 'eab', 'create', '--kid', `wrong-${++kids}`, ...words)
      assert.notEqual(code, 0)
      assert.match(stderr, message)
    })
})
