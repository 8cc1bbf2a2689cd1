/** Allowed identifiers over the Admin API, and what ACME clients get of them. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AcmeClient, registeredClient } from '../support/acme-client.ts'
import { assertNamed } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, boundClient, change, type MadeCredential, made, NOBODY, newestEntries } from '../support/bound.ts'
import { sharedService } from '../support/shared-service.ts'

describe('allowed identifiers', () => {
  const { service, as } = administered(() => sharedService('allowlists'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')

  let count = 0
  const name = () => `host-${++count}.test`
  const identifier = (value: string, type = 'dns') => made(admin, '/allowed-identifiers', { type, value })
  const credential = () => made<MadeCredential>(admin, '/eab', { kid: `kid-${++count}` })
  const ids = async (path: string) => (await admin.get(path)).json.map(({ id }: { id: string }) => id)

  async function assertMayOrder(client: AcmeClient, value: string, expected: boolean): Promise<void> {
    const answer = await client.newOrder([value])
    assert.equal(answer.status, expected ? 201 : 400, answer.text)
  }

  test('are made in normal form, read and listed, the newest first', async () => {
    const reply = await admin.send('POST', '/allowed-identifiers', { type: 'dns', value: ' *.Made.TEST ' })
    const { id, created_by, created_at, ...facts } = reply.json
    assert.equal(reply.status, 201)
    assert.deepEqual(facts, {
      identifier_type: 'dns',
      identifier_value: '*.made.test',
      credential_kids: [],
      account_ids: [],
      account_names: [],
      more_accounts: false,
    })
    assert.equal(created_by, (await admin.get('/me')).json.id)
    assert.match(created_at, /Z$/)
    const newer = await identifier('192.0.2.0/24', 'ip')
    assert.deepEqual((await admin.get(`/allowed-identifiers/${id}`)).json, reply.json)
    const listed = await ids('/allowed-identifiers')
    assert.ok(listed.indexOf(newer.id) < listed.indexOf(id))
  })

  test('a second one of the same value is a conflict', async () => {
    const value = name()
    await identifier(value)
    const reply = await admin.send('POST', '/allowed-identifiers', { type: 'dns', value: value.toUpperCase() })
    assert.deepEqual([reply.status, reply.json.error], [409, 'conflict'])
  })

  test('what is missing or no identifier is named', async () => {
    await assertNamed(
      (body) => admin.send('POST', '/allowed-identifiers', body),
      [
        [{ type: 'dns' }, 'value'],
        [{ value: 'a.test' }, 'type'],
        [{ type: 'mail', value: 'a.test' }, 'type'],
        [{ type: 'dns', value: 'a..test' }, 'value'],
        [{ type: 'dns', value: 'a.*.test' }, 'value'],
        [{ type: 'ip', value: '192.0.2.1/24' }, 'value'],
        [{ type: 'dns', value: 7 }, 'value'],
        [{ type: 'dns', value: 'a.test', valu: 1 }, 'valu'],
      ],
    )
  })

  test('an account may order what is allowed to it, until it is taken back or deleted', async () => {
    const client = await registeredClient(service.directoryUrl)
    const accountId = accountIdOf(client)
    const [first, second] = [name(), name()]
    const [one, two] = [await identifier(first), await identifier(second)]
    for (const { id } of [one, two, one]) await change(admin, 'PUT', `/allowed-identifiers/${id}/accounts/${accountId}`)
    await assertMayOrder(client, first, true)
    await assertMayOrder(client, second, true)
    assert.deepEqual((await admin.get(`/allowed-identifiers/${one.id}`)).json.account_ids, [accountId])
    assert.deepEqual(await ids(`/accounts/${accountId}/allowed-identifiers`), [two.id, one.id])
    for (let time = 0; time < 2; time++)
      await change(admin, 'DELETE', `/allowed-identifiers/${one.id}/accounts/${accountId}`)
    await assertMayOrder(client, first, false)
    await change(admin, 'DELETE', `/allowed-identifiers/${two.id}`)
    await assertMayOrder(client, second, false)
    assert.deepEqual(await ids(`/accounts/${accountId}/allowed-identifiers`), [])
    assert.equal((await admin.get(`/allowed-identifiers/${two.id}`)).status, 404)
  })

  test('a credential grants to accounts before and after, and takes back from all', async () => {
    const granting = await credential()
    const before = await boundClient(service, granting)
    const value = name()
    const { id } = await identifier(value)
    await change(admin, 'PUT', `/eab/${granting.id}/allowed-identifiers/${id}`)
    assert.deepEqual((await admin.get(`/allowed-identifiers/${id}`)).json.credential_kids, [granting.kid])
    const later = await boundClient(service, granting)
    for (const client of [before, later]) await assertMayOrder(client, value, true)
    assert.deepEqual(await ids(`/eab/${granting.id}/allowed-identifiers`), [id])
    assert.deepEqual((await admin.get(`/allowed-identifiers/${id}`)).json.account_ids, [before, later].map(accountIdOf))
    for (let time = 0; time < 2; time++) await change(admin, 'DELETE', `/eab/${granting.id}/allowed-identifiers/${id}`)
    for (const client of [before, later]) await assertMayOrder(client, value, false)
  })

  test('what is allowed to the account itself outlives the grant of its credential, and the other way round', async () => {
    for (const isDirectFirst of [true, false]) {
      const granting = await credential()
      const client = await boundClient(service, granting)
      const value = name()
      const { id } = await identifier(value)
      const direct = `/allowed-identifiers/${id}/accounts/${accountIdOf(client)}`
      const granted = `/eab/${granting.id}/allowed-identifiers/${id}`
      const [one, other] = isDirectFirst ? [direct, granted] : [granted, direct]
      await change(admin, 'PUT', one)
      await change(admin, 'PUT', other)
      await change(admin, 'DELETE', one)
      await assertMayOrder(client, value, true)
      await change(admin, 'DELETE', other)
      await assertMayOrder(client, value, false)
    }
  })

  test('the list of an account says which of them its credential grants', async () => {
    const granting = await credential()
    const accountId = accountIdOf(await boundClient(service, granting))
    const [own, granted] = [await identifier(name()), await identifier(name())]
    for (const { id } of [own, granted]) await change(admin, 'PUT', `/eab/${granting.id}/allowed-identifiers/${id}`)
    await change(admin, 'PUT', `/allowed-identifiers/${own.id}/accounts/${accountId}`)
    const { json } = await admin.get(`/accounts/${accountId}/allowed-identifiers`)
    const ways = json.map((row: { id: string; eab_credential_id: string | null }) => [row.id, row.eab_credential_id])
    assert.deepEqual(Object.fromEntries(ways), { [own.id]: null, [granted.id]: granting.id })
  })

  test('many are allowed and taken back in one commit, and each is told what became of it', async () => {
    const granting = await credential()
    const client = await boundClient(service, granting)
    const [own, both, granted, never] = [name(), name(), name(), name()]
    const account = `/accounts/${accountIdOf(client)}/allowed-identifiers`
    const send = async (path: string, body: object) => {
      const reply = await admin.send('POST', path, body)
      assert.equal(reply.status, 200, reply.text)
      return (reply.json as { identifier: string; outcome: string }[]).map(
        ({ identifier, outcome }) => `${identifier} ${outcome}`,
      )
    }
    assert.deepEqual(await send(account, { allow: [own.toUpperCase(), both, own] }), [
      `${own} allowed`,
      `${both} allowed`,
    ])
    assert.deepEqual(await send(`/eab/${granting.id}/allowed-identifiers`, { allow: [both, granted] }), [
      `${both} allowed`,
      `${granted} allowed`,
    ])
    for (const value of [own, both, granted]) await assertMayOrder(client, value, true)
    assert.deepEqual(await send(account, { allow: [never], disallow: [own, both, granted, 'unknown.test'] }), [
      `${never} allowed`,
      `${own} removed`,
      `${both} kept`,
      `${granted} absent`,
      'unknown.test absent',
    ])
    await assertMayOrder(client, own, false)
    for (const value of [both, granted, never]) await assertMayOrder(client, value, true)
    assert.deepEqual(await send(`/eab/${granting.id}/allowed-identifiers`, { disallow: [both] }), [`${both} removed`])
    await assertMayOrder(client, both, false)
  })

  test('one that is wrong among many changes nothing; so does nothing at all', async () => {
    const client = await registeredClient(service.directoryUrl)
    const path = `/accounts/${accountIdOf(client)}/allowed-identifiers`
    const reply = await admin.send('POST', path, { allow: ['fine.test', 'a..test', '10.0.0.1/8'] })
    assert.deepEqual([reply.status, reply.json.fields.length], [400, 2])
    assert.deepEqual(await ids(path), [])
    for (const body of [undefined, {}, { allow: [] }, { allow: 'a.test' }, { allow: ['a.test'], add: [] }])
      assert.equal((await admin.send('POST', path, body)).status, 400, JSON.stringify(body))
    for (const unknown of [`/accounts/${NOBODY}`, `/eab/${NOBODY}`])
      assert.equal((await admin.send('POST', `${unknown}/allowed-identifiers`, { allow: ['a.test'] })).status, 404)
  })

  test('a network that is allowed covers its addresses', async () => {
    const client = await registeredClient(service.directoryUrl)
    const { id } = await identifier('198.51.100.0/25', 'ip')
    await change(admin, 'PUT', `/allowed-identifiers/${id}/accounts/${accountIdOf(client)}`)
    await assertMayOrder(client, '198.51.100.127', true)
    await assertMayOrder(client, '198.51.100.128', false)
  })

  test('unknown ends are 404, malformed ones too', async () => {
    const { id } = await identifier(name())
    const granting = await credential()
    const accountId = accountIdOf(await registeredClient(service.directoryUrl))
    for (const [method, path] of [
      ['GET', `/allowed-identifiers/${NOBODY}`],
      ['GET', '/allowed-identifiers/7'],
      ['DELETE', `/allowed-identifiers/${NOBODY}`],
      ['PUT', `/allowed-identifiers/${NOBODY}/accounts/${accountId}`],
      ['PUT', `/allowed-identifiers/${id}/accounts/${NOBODY}`],
      ['DELETE', `/allowed-identifiers/${NOBODY}/accounts/${accountId}`],
      ['DELETE', `/allowed-identifiers/${id}/accounts/${NOBODY}`],
      ['GET', `/accounts/${NOBODY}/allowed-identifiers`],
      ['GET', `/eab/${NOBODY}/allowed-identifiers`],
      ['PUT', `/eab/${NOBODY}/allowed-identifiers/${id}`],
      ['PUT', `/eab/${granting.id}/allowed-identifiers/${NOBODY}`],
      ['DELETE', `/eab/${NOBODY}/allowed-identifiers/${id}`],
      ['DELETE', `/eab/${granting.id}/allowed-identifiers/${NOBODY}`],
    ] as const) {
      const reply = await admin.send(method, path)
      assert.deepEqual([reply.status, reply.json.error], [404, 'not_found'], `${method} ${path}`)
    }
  })

  test('auditors neither read nor change them', async () => {
    assert.equal((await auditor.get('/allowed-identifiers')).status, 403)
    assert.equal((await auditor.send('POST', '/allowed-identifiers', { type: 'dns', value: name() })).status, 403)
  })

  test('each change is audited once, and what changes nothing is not', async () => {
    const value = name()
    const { id } = await identifier(value)
    const facts = { identifier_id: id, identifier_type: 'dns', identifier_value: value }
    const accountId = accountIdOf(await registeredClient(service.directoryUrl))
    const association = `/allowed-identifiers/${id}/accounts/${accountId}`
    for (const method of ['PUT', 'PUT', 'DELETE', 'DELETE'] as const) await change(admin, method, association)
    await change(admin, 'DELETE', `/allowed-identifiers/${id}`)
    assert.deepEqual(await newestEntries(admin, 4), [
      { action: 'identifier.delete', details: facts },
      { action: 'identifier.remove_account', details: { ...facts, account_id: accountId } },
      { action: 'identifier.add_account', details: { ...facts, account_id: accountId } },
      { action: 'identifier.create', details: facts },
    ])
  })
})
