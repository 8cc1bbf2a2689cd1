/**
 * What a restart keeps and what it changes: one service that starts three times, each time with another configuration.
 * Orders, nonces and accounts of the time before meet `challenges.auto_accept`, other methods, other profiles and new terms.
 */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  closeConnections,
  createAcmeClient,
  csrFor,
  JOSE,
  locationOf,
  registeredClient,
  send,
} from '../support/acme-client.ts'
import { RECORDED, SHORT_LIVED, testRecordAtTheEnd, testRecordedNonces } from '../support/clients/recorded-nonces.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService } from '../support/service.ts'
import { ACCEPT_ALL, FAULTY_VALIDATOR, FOR_SERVERS } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const TERMS = 'https://ca.example.test/terms'
const INSTRUCTIONS = 'https://ca.example.test/how-to-agree'
const ALLOWLISTS = { identifier_policy: { enforce_account_allowlist: true } }
const terms = (version: string, more: object = {}) => ({ url: TERMS, require_agreement: true, version, ...more })

const FIRST = {
  ...RECORDED,
  ca: { profiles: { default: FOR_SERVERS, short: { ...FOR_SERVERS, validity_days: 6 } } },
  challenges: { enabled: [`${FAULTY_VALIDATOR}#Faulty`, ACCEPT_ALL, `${FAULTY_VALIDATOR}#Http01`] },
  logging: { level: 'CRITICAL' },
  nonce: { ...RECORDED.nonce, ...SHORT_LIVED },
  security: ALLOWLISTS,
  server: { keepalive: 0 },
  tos: terms('2026-01'),
}
const SECOND = { challenges: { auto_accept: true }, security: ALLOWLISTS, tos: terms('2026-01') }
const THIRD = {
  challenges: { enabled: [ACCEPT_ALL, 'http-01'] },
  tos: terms('2026-02', { instructions_url: INSTRUCTIONS }),
}

interface Offered {
  order: Answer
  url: string
  challenges: { type: string; url: string; status: string }[]
}

const idOf = ({ kid }: AcmeClient) => kid.slice(-36)

const first = await startTestService({ fronts: 1, config: FIRST })
let service = first
after(async () => {
  closeConnections()
  await service.dispose()
  if (service !== first) await first.dispose()
})

async function restart(config: Record<string, unknown>, fronts: { fronts?: 1 } = {}): Promise<void> {
  closeConnections()
  await service.stop()
  service = await startTestService({ ...fronts, continueFrom: first, config })
}

/** Of an account that may ask for any name below these. */
async function aClient(...allowed: string[]): Promise<AcmeClient> {
  const client = await registeredClient(service.directoryUrl)
  await operate(service, 'accounts', 'allow', idOf(client), ...allowed)
  return client
}

async function offered(client: AcmeClient, name: string, more: object = {}): Promise<Offered> {
  const order = await client.newOrder([name], more)
  assert.equal(order.status, 201, order.text)
  const url = order.json.authorizations[0] as string
  return { order, url, challenges: (await client.post(url)).json.challenges }
}

function ofType({ challenges }: Offered, type: string) {
  const found = challenges.find((challenge) => challenge.type === type)
  assert.ok(found, type)
  return found
}

async function trigger(client: AcmeClient, offer: Offered, type: string): Promise<string> {
  await client.post(ofType(offer, type).url, {})
  return (await client.settled(offer.url)).json.status
}

function assertRefused(answer: Answer): void {
  assert.equal(answer.status, 403, answer.text)
  assert.equal(answer.json.type, 'urn:ietf:params:acme:error:userActionRequired')
  assert.equal(answer.json.instance, INSTRUCTIONS)
  assert.deepEqual(answer.links['terms-of-service'], [TERMS])
}

let client: AcmeClient
let unusedNonce: string
let orders: Record<'pending' | 'kept' | 'gone' | 'short', Offered>
/** With an order each, under the terms of their time. */
let clients: AcmeClient[]

describe('before the first restart', () => {
  before(async () => {
    client = await aClient('*.test')
    const short = await offered(client, 'short.test', { profile: 'short' })
    assert.equal(await trigger(client, short, 'accept-all-01'), 'valid')
    orders = {
      pending: await offered(client, 'a.before.test'),
      kept: await offered(client, 'kept.test'),
      gone: await offered(client, 'good.gone.test'),
      short,
    }
    assert.equal(orders.pending.order.json.status, 'pending')
    clients = await Promise.all([1, 2, 3].map(() => aClient('*.test')))
    for (const one of clients) assert.equal((await one.newOrder(['before.test'])).status, 201)
  })

  test('a module may stand in for a built-in method', async () => {
    const offer = await offered(client, 'stand-in.test')
    assert.equal(ofType(offer, 'http-01').url.at(-1), '1')
    assert.equal(await trigger(client, offer, 'http-01'), 'valid', 'nobody answers http-01 here')
  })

  testRecordedNonces(() => ({ service, client }))

  test('server.keepalive 0 closes connections', async () => {
    const answer = await fetch(service.directoryUrl)
    assert.equal(answer.headers.get('connection'), 'close')
    assert.equal((await fetch(service.directoryUrl)).status, 200)
    unusedNonce = await client.nonce()
  })

  testRecordAtTheEnd(() => ({ service, client }))

  test('that a service is ready and stops is logged at any level, and pages nobody', () => {
    const life = ['service ready', 'service stopping', 'service stopped']
    assert.deepEqual(
      service.log.map(({ message, level }) => `${level} ${message}`),
      life.map((message) => `info ${message}`),
    )
  })
})

describe('auto_accept', () => {
  before(() => restart(SECOND, { fronts: 1 }))

  test('is warned about in the log at each start', async () => {
    const line = service.log.find(({ event }) => event === 'auto_accept')
    assert.equal(line?.level, 'warn')
    assert.match(line.message, /NO CONTROL OVER IDENTIFIERS IS CHECKED/)
  })

  test('orders are ready at once, authorizations and challenges valid', async () => {
    const client = await aClient('*.auto.test')
    const order = await client.newOrder(['a.auto.test'])
    assert.deepEqual([order.status, order.json.status], [201, 'ready'])
    const { json } = await client.post(order.json.authorizations[0])
    assert.equal(json.status, 'valid')
    assert.deepEqual(
      json.challenges.map(({ type, status }: { type: string; status: string }) => [type, status]),
      [['http-01', 'valid']],
    )
    assert.equal((await client.post(order.json.finalize, { csr: await csrFor(['a.auto.test']) })).status, 200)
    assert.equal((await client.settled(locationOf(order))).json.status, 'valid')
    const line = await service.waitForLog('identifiers are valid without a challenge')
    assert.deepEqual([line['event'], line['by']], ['identifiers_approved', 'auto_accept'])
  })

  test('a pre-authorization is valid at once', async () => {
    const client = await aClient('pre.auto.test')
    const identifier = { type: 'dns', value: 'pre.auto.test' }
    assert.equal((await client.post(client.directory['newAuthz'] as string, { identifier })).json.status, 'valid')
  })

  test('names outside the allowlist are refused as ever, and so is a CSR for other names', async () => {
    const client = await aClient('mine.auto.test')
    const refused = await client.newOrder(['yours.auto.test'])
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:rejectedIdentifier')
    const order = await client.newOrder(['mine.auto.test'])
    const answer = await client.post(order.json.finalize, { csr: await csrFor(['yours.auto.test']) })
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:badCSR')
  })

  test('without allowlists it refuses the start, but for --dev', async () => {
    const file = path.join(service.folder, 'config.yaml')
    const good = readFileSync(file, 'utf8')
    try {
      writeFileSync(file, good.replace('enforce_account_allowlist: true', 'enforce_account_allowlist: false'))
      const { code, stderr } = await chancery(service, 'serve')
      assert.equal(code, 1)
      assert.match(stderr, /challenges\.auto_accept.*anybody would get any certificate/)
      const dev = await chancery(service, '--validate-only', '--dev')
      assert.equal(dev.code, 0, dev.stderr)
      assert.match(dev.stderr, /warning: challenges\.auto_accept.*no control over any identifier is checked/)
    } finally {
      writeFileSync(file, good)
    }
  })

  test('accepts challenges of orders from before', async () => {
    assert.equal(await trigger(client, orders.pending, 'http-01'), 'valid')
    assert.equal((await client.newOrder(['b.before.test'])).json.status, 'ready')
  })

  test('a nonce of before the restart is a badNonce, and the account is still there (RFC 8555 §6.5)', async () => {
    const refused = await client.post(client.kid, undefined, { header: { nonce: unusedNonce } })
    assert.equal(`${refused.status} ${refused.json.type}`, `400 ${PROBLEM}badNonce`)
    assert.equal((await client.post(client.kid)).status, 200)
  })
})

describe('after auto_accept, with other methods and no profiles', () => {
  before(async () => {
    await operate(service, 'maintenance', 'on')
    await restart(THIRD)
    await operate(service, 'terms', 'accept', '--account', idOf(client))
  })

  test('maintenance holds across the restart', async () => {
    assert.equal((await client.newOrder(['restarted.test'])).status, 503)
    await operate(service, 'maintenance', 'off')
    const isOver = async () => (await client.newOrder(['restarted.test'])).status === 201
    await until('it is over', isOver)
  })

  test('nothing that auto_accept accepted serves a new order', async () => {
    assert.equal((await client.newOrder(['b.before.test'])).json.status, 'pending')
    // The challenge that was accepted showed no control either.
    const { json } = await client.newOrder(['a.before.test', 'c.before.test'])
    assert.ok(!json.authorizations.includes(orders.pending.url))
  })

  test('a challenge keeps its URL and its meaning when the configuration changes', async () => {
    const challenge = ofType(orders.kept, 'accept-all-01')
    assert.deepEqual((await client.post(challenge.url)).json, challenge)
    assert.equal(await trigger(client, orders.kept, 'accept-all-01'), 'valid')
    const fresh = await offered(client, 'fresh.test')
    assert.deepEqual([ofType(fresh, 'accept-all-01').url.at(-1), challenge.url.at(-1)], ['6', '7'])

    // Its module is not there any more: shown as it is, and never valid.
    const orphan = ofType(orders.gone, 'faulty-01')
    assert.equal((await client.post(orphan.url)).json.type, 'faulty-01')
    assert.equal(await trigger(client, orders.gone, 'faulty-01'), 'invalid')
    const { error } = (await client.post(orphan.url)).json
    assert.match(error.detail, /^the validator of faulty-01 is not part of this server any more/)
  })

  test('finalize of an order whose profile is no longer there is invalidProfile (draft-ietf-acme-profiles §4)', async () => {
    const { json } = orders.short.order
    const answer = await client.post(json.finalize, { csr: await csrFor(['short.test']) })
    assert.equal(answer.json.type, `${PROBLEM}invalidProfile`)
    const read = await client.post(locationOf(orders.short.order))
    assert.equal(read.json.status, 'ready')

    const { meta } = (await createAcmeClient(service.directoryUrl)).directory as unknown as { meta: object }
    assert.equal('profiles' in meta, false)
    assert.equal('profile' in read.json, false, 'a server without a choice of profiles does not speak of them')
    const refused = await client.newOrder(['short.test'], { profile: 'default' })
    assert.equal(refused.json.type, `${PROBLEM}invalidProfile`, 'not even the default one is advertised')
  })
})

describe('terms of a new version', () => {
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
    assert.match(
      (await chancery(service, 'terms', 'accept', '--all')).stdout,
      /^[1-9]\d* accounts? ha(s|ve) now agreed/,
    )
    assert.equal((await third.newOrder(['third.test'])).status, 201)
  })

  test('the command wants one of both, a version and an account', async () => {
    assert.equal((await chancery(service, 'terms', 'accept')).code, 2)
    const unknown = await chancery(service, 'terms', 'accept', '--account', '01938c4e-0000-7000-8000-000000000000')
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /there is no account 01938c4e/)
  })
})
