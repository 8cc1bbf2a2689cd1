/** Names and tags of accounts in the Admin API, and what a credential hands on to its accounts. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { registeredClient } from '../support/acme-client.ts'
import { type AdminClient, administrator, assertNamed } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf, boundClient, type MadeCredential, made, newestEntries } from '../support/bound.ts'
import { sharedService } from '../support/shared-service.ts'

type Row = Record<string, unknown>

describe('names and tags of accounts', () => {
  const at = issuingOn(() => sharedService('admin'))
  let admin: AdminClient
  let id: string
  before(async () => {
    admin = at.admin
    id = accountIdOf(at.client)
  })

  const update = (account: string, body: object, by = admin) => by.send('PATCH', `/accounts/${account}`, body)
  const read = async (account: string) => (await admin.get(`/accounts/${account}`)).json as Row
  const listed = async (query: string, by = admin) => (await by.get(`/accounts?${query}`)).json as Row[]
  const idsOf = (rows: Row[]) => rows.map((row) => row['id'])

  test('an account has the end of its id for a name, then its contact, then its label', async () => {
    assert.equal((await read(id))['name'], id.slice(-12))
    await at.sql('UPDATE accounts SET contacts = $2 WHERE id = $1', [id, ['mailto:ops@example.com']])
    assert.equal((await read(id))['name'], 'ops@example.com')
    const reply = await update(id, { label: '  Payments ' })
    assert.deepEqual([reply.status, reply.json.label, reply.json.name], [200, 'Payments', 'Payments'], reply.text)
  })

  test('a new name and new tags are one entry of the audit log, with before and after', async () => {
    assert.equal((await update(id, { label: 'Billing', tags: ['pay', 'emea', 'pay'] })).status, 200)
    const [entry] = await newestEntries(admin, 1)
    assert.deepEqual(entry, {
      action: 'account.update',
      details: {
        account_id: id,
        label: { before: 'Payments', after: 'Billing' },
        tags: { before: [], after: ['emea', 'pay'] },
      },
    })
    assert.equal((await update(id, { label: 'Billing' })).status, 200)
    assert.deepEqual((await newestEntries(admin, 1))[0], entry, 'what changes nothing is no entry')
  })

  test('null takes the label away', async () => {
    assert.equal((await update(id, { label: null })).json.name, 'ops@example.com')
    await update(id, { label: 'Billing' })
  })

  test('a label in two lines, a long one and wrong tags are refused by name', async () => {
    await assertNamed(
      (body) => update(id, body as object),
      [
        [{ label: 'two\nlines' }, 'label'],
        [{ label: '\u202egnilliB' }, 'label'],
        [{ label: 'x'.repeat(256) }, 'label'],
        [{ label: ' ' }, 'label'],
        [{ tags: ['Upper'] }, 'tags.0'],
        [{ tags: ['with space'] }, 'tags.0'],
        [{ tags: ['x'.repeat(41)] }, 'tags.0'],
        [{ tags: Array.from({ length: 11 }, (_, n) => `t${n}`) }, 'tags'],
      ],
    )
    assert.equal((await update(id, {})).status, 400)
  })

  test('an auditor and an operator write nothing', async () => {
    for (const role of ['auditor', 'operator'] as const)
      assert.equal(
        (await update(id, { label: 'x' }, await administrator(at.service, `${role}-names`, role))).status,
        403,
      )
  })

  test('every reply with the id of an account has its name', async () => {
    const { orderUrl } = await at.client.obtain(['named.test'], at.responder)
    const order = (await admin.get(`/orders/${orderUrl.split('/').at(-1)}`)).json
    assert.equal(order.account_name, 'Billing')
    assert.equal(order.authorizations[0].account_name, 'Billing')
    assert.equal((await admin.get(`/authorizations/${order.authorizations[0].id}`)).json.account_name, 'Billing')
    assert.equal((await admin.get(`/orders?account_id=${id}`)).json[0].account_name, 'Billing')
    const [certificate] = (await admin.get(`/certificates?account_id=${id}`)).json
    assert.equal(certificate.account_name, 'Billing')
    const serial = certificate.serial_number
    assert.equal((await admin.get(`/certificates/${serial}`)).json.account_name, 'Billing')
    assert.equal((await admin.get(`/certificates/${serial}/details`)).json.certificate.account_name, 'Billing')
    const revoked = await admin.send('POST', `/certificates/${serial}/revoke`, { reason: 4 })
    assert.equal(revoked.json.account_name, 'Billing')
    await admin.send('POST', `/accounts/${id}/allowed-identifiers`, { allow: ['named.test'] })
    const [identifier] = (await admin.get('/allowed-identifiers?value=named.test')).json
    assert.deepEqual(identifier.account_names, ['Billing'])
  })

  test('the list counts certificates that are neither expired nor revoked', async () => {
    const other = await registeredClient(at.service.directoryUrl)
    const countOf = async () => (await listed('limit=1'))[0]?.['certificates']
    assert.deepEqual(await countOf(), { current: 0, more: false })
    await other.obtain(['counted.test'], at.responder)
    assert.deepEqual(await countOf(), { current: 1, more: false })
    const [certificate] = (await admin.get(`/certificates?account_id=${accountIdOf(other)}`)).json
    await admin.send('POST', `/certificates/${certificate.serial_number}/revoke`)
    assert.deepEqual(await countOf(), { current: 0, more: false })
  })

  test('a list finds accounts by a tag and by a part of any name', async () => {
    assert.deepEqual(idsOf(await listed('tag=emea')), [id])
    assert.deepEqual(idsOf(await listed('tag=eme')), [])
    assert.equal((await admin.get('/accounts?tag=EMEA')).status, 400)
    for (const name of ['BILL', 'ops@', '.com']) assert.ok(idsOf(await listed(`name=${name}&tag=pay`)).includes(id))
    assert.deepEqual(idsOf(await listed('name=b%25l')), [], 'a wildcard of SQL is a letter')
  })

  test('accounts get the tags of their credential when they register', async () => {
    const credential = await made<MadeCredential & Row>(admin, '/eab', {
      kid: 'tagged-kid',
      label: 'Warehouse',
      tags: ['warehouse', 'eu'],
    })
    assert.deepEqual(credential['tags'], ['eu', 'warehouse'])
    const bound = await read(accountIdOf(await boundClient(at.service, credential)))
    assert.deepEqual([bound['tags'], bound['name']], [['eu', 'warehouse'], 'tagged-kid'])
    assert.deepEqual(idsOf(await listed('tag=warehouse')), [bound['id']])
    assert.deepEqual(idsOf(await listed('name=AGGED-k')), [bound['id']])
    for (const query of ['tag=warehouse', 'name=house', 'name=TAGGED'])
      assert.deepEqual(idsOf((await admin.get(`/eab?${query}`)).json), [credential.id], query)
    const shown = (await admin.get(`/eab/${credential.id}`)).json
    assert.deepEqual([shown.tags, shown.account_name], [['eu', 'warehouse'], 'tagged-kid'])
  })

  test('a registrar names its accounts, and changes only tags that it looks after', async () => {
    const registrar = await administrator(at.service, 'rita-names', 'registrar', ['warehouse', 'north'])
    const [account] = await listed('tag=warehouse')
    const own = String(account?.['id'])
    assert.equal((await update(own, { label: 'Warehouse' }, registrar)).json.name, 'Warehouse')
    assert.equal((await update(own, { tags: ['eu', 'warehouse', 'north'] }, registrar)).status, 200)
    for (const tags of [['warehouse'], ['eu', 'pay', 'warehouse'], ['eu']])
      assert.equal((await update(own, { tags }, registrar)).status, 403, tags.join())
    assert.deepEqual((await read(own))['tags'], ['eu', 'north', 'warehouse'])
    assert.equal((await update(id, { label: 'mine' }, registrar)).status, 404)
  })
})
