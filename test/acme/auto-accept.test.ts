/** `challenges.auto_accept`: every identifier that may be asked for is valid at once. */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { closeConnections, csrFor, locationOf, registeredClient } from '../support/acme-client.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'

const config = (autoAccept: boolean) => ({
  challenges: { auto_accept: autoAccept },
  security: { identifier_policy: { enforce_account_allowlist: true } },
})

describe('auto_accept', () => {
  let service: TestService
  before(async () => {
    service = await startTestService({ fronts: 1, config: config(true) })
  })
  after(async () => {
    closeConnections()
    await service.dispose()
  })

  async function aClient(...allowed: string[]) {
    const client = await registeredClient(service.directoryUrl)
    await operate(service, 'accounts', 'allow', client.kid.split('/').at(-1) as string, ...allowed)
    return client
  }

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
})

test('switched on, it accepts challenges of orders from before; switched off, nothing it accepted serves a new order', async (t) => {
  const service = await startTestService({ fronts: 1, config: config(false) })
  t.after(async () => {
    closeConnections()
    await service.dispose()
  })
  const client = await registeredClient(service.directoryUrl)
  await operate(service, 'accounts', 'allow', client.kid.split('/').at(-1) as string, '*.before.test')
  const before = await client.newOrder(['a.before.test'])
  assert.equal(before.json.status, 'pending')
  await service.stop()

  const on = await startTestService({ fronts: 1, continueFrom: service, config: config(true) })
  t.after(() => on.stop())
  const { json } = await client.post(before.json.authorizations[0])
  await client.post(json.challenges[0].url, {})
  assert.equal((await client.settled(before.json.authorizations[0])).json.status, 'valid')
  assert.equal((await client.newOrder(['b.before.test'])).json.status, 'ready')
  await on.stop()

  const off = await startTestService({ fronts: 1, continueFrom: service, config: config(false) })
  try {
    assert.equal((await client.newOrder(['b.before.test'])).json.status, 'pending')
    // The challenge that was accepted showed no control either.
    const { json: other } = await client.newOrder(['a.before.test', 'c.before.test'])
    assert.ok(!other.authorizations.includes(before.json.authorizations[0]))
  } finally {
    await off.dispose()
  }
})
