/** Orders and authorizations in the Admin API, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { locationOf, type Obtained } from '../support/acme-client.ts'
import { issuingOn } from '../support/administered.ts'
import { operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

type Row = Record<string, unknown>

describe('orders of the Admin API', () => {
  const at = issuingOn(() => sharedService('admin'))
  let issued: Obtained
  let pending: string
  const idOf = (url: string) => url.split('/').at(-1) as string
  before(async () => {
    issued = await at.client.obtain(['www.test'], at.responder)
    pending = idOf(locationOf(await at.client.newOrder(['later.test'])))
  })

  const list = async (query: string) => {
    const reply = await at.auditor.get(`/orders?${query}`)
    assert.equal(reply.status, 200, reply.text)
    return (reply.json as Row[]).map((row) => row['id'])
  }

  test('a list has the newest first, by account, status, name and time', async () => {
    const done = idOf(issued.orderUrl)
    assert.deepEqual(await list(''), [pending, done])
    assert.deepEqual(await list(`account_id=${idOf(at.client.kid)}`), [pending, done])
    assert.deepEqual(await list('account_id=01900000-0000-7000-8000-000000000003'), [])
    assert.deepEqual(await list('status=pending'), [pending])
    assert.deepEqual(await list('status=valid'), [done])
    assert.deepEqual(await list('domain=WWW.test'), [done])
    assert.deepEqual(await list('domain=%25'), [])
    assert.deepEqual(await list('created_before=2024-01-01'), [])
    assert.deepEqual(await list('limit=1&offset=1'), [done])
    assert.equal((await at.auditor.get('/orders?status=open&created_after=x')).json.fields.length, 2)
  })

  test('one order has its authorizations with the evidence of the deciding attempt', async () => {
    const { json } = await at.auditor.get(`/orders/${idOf(issued.orderUrl)}`)
    assert.deepEqual([json.status, json.profile, json.error], ['valid', 'default', null])
    assert.deepEqual(json.identifiers, [{ type: 'dns', value: 'www.test' }])
    const [authorization] = json.authorizations
    assert.deepEqual([authorization.status, authorization.wildcard], ['valid', false])
    assert.deepEqual([authorization.evidence.type, authorization.evidence.result], ['http-01', 'success'])
    assert.ok(authorization.evidence.steps.length > 0)
    assert.doesNotMatch(JSON.stringify(json.authorizations[0].challenges), /token/)
    assert.equal((await at.auditor.get(`/certificates?account_id=${json.account_id}`)).json[0].id, json.certificate_id)
  })

  test('one authorization is shown alone', async () => {
    const order = await at.auditor.get(`/orders/${pending}`)
    for (const { id } of order.json.authorizations) {
      const { json } = await at.auditor.get(`/authorizations/${id}`)
      assert.deepEqual([json.status, json.identifier.value, json.evidence], ['pending', 'later.test', null])
      assert.equal(json.challenges[0].status, 'pending')
    }
  })

  test('stored facts of another shape are shown as they are', async () => {
    const [{ id = '' } = {}] = (await at.auditor.get(`/orders/${pending}`)).json.authorizations
    const store = (column: string, value: unknown) =>
      at.sql(`UPDATE authorizations SET ${column} = $1::jsonb WHERE id = $2`, [JSON.stringify(value), id])
    for (const [evidence, shown] of [
      [
        { type: 'http-01', later: true },
        { type: 'http-01', later: true },
      ],
      [{ steps: [null, 7] }, { steps: [null, 7] }],
      ['a text', { stored: 'a text' }],
      [[1], { stored: [1] }],
    ]) {
      await store('evidence', evidence)
      const reply = await at.auditor.get(`/authorizations/${id}`)
      assert.deepEqual([reply.status, reply.json.evidence], [200, shown], reply.text)
      await operate(at.service, 'inspect', 'order', pending)
    }
    for (const attempts of [{ 'http-01': 7 }, { 'http-01': { status: 1, tries: 'x', error: 'e' } }, [], 'x']) {
      await store('attempts', attempts)
      const reply = await at.auditor.get(`/orders/${pending}`)
      assert.equal(reply.status, 200, reply.text)
    }
    await at.sql(`UPDATE orders SET error = '"it failed"' WHERE id = $1`, [pending])
    assert.deepEqual((await at.auditor.get(`/orders/${pending}`)).json.error, { stored: 'it failed' })
    assert.equal((await at.auditor.get('/orders')).status, 200)
  })

  test('unknown and malformed ids are 404', async () => {
    for (const path of ['/orders', '/authorizations'])
      for (const id of ['01900000-0000-7000-8000-000000000003', 'x'])
        assert.equal((await at.auditor.get(`${path}/${id}`)).status, 404)
  })
})
