/** The terms of service in the Admin API: who has agreed, and agreements given outside the protocol. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { registeredClient } from '../support/acme-client.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, NOBODY } from '../support/bound.ts'
import { sharedService, TERMS_URL } from '../support/shared-service.ts'

describe('terms of service', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  let account: string
  before(async () => {
    account = accountIdOf(await registeredClient(service.directoryUrl))
    await registeredClient(service.directoryUrl)
    await sql("UPDATE accounts SET terms_version = '1'")
  })

  const agreed = async () => (await admin.get('/terms')).json.agreed

  test('show the version that counts, and how many accounts have agreed to it', async () => {
    assert.deepEqual((await admin.get('/terms')).json, {
      url: TERMS_URL,
      version: '2',
      require_agreement: true,
      accounts: 2,
      agreed: 0,
    })
  })

  test('an agreement is recorded for one account, and for all that lack it', async () => {
    const one = await admin.send('POST', '/terms/accept', { account_id: account })
    assert.deepEqual(one.json, { accounts: 1, version: '2' }, one.text)
    assert.equal(await agreed(), 1)
    for (const accounts of [1, 0])
      assert.deepEqual((await admin.send('POST', '/terms/accept', { all: true })).json, { accounts, version: '2' })
    assert.equal(await agreed(), 2)
    const [entry] = (await admin.get('/audit-log?action=terms.accept')).json.slice(-1)
    assert.deepEqual(entry.details, { account_id: account, version: '2' })
  })

  test('neither and both are refused, as is an account that is not there', async () => {
    for (const body of [{}, { all: true, account_id: account }])
      assert.match((await admin.send('POST', '/terms/accept', body)).text, /either 'account_id' or 'all'/)
    assert.equal((await admin.send('POST', '/terms/accept', { account_id: NOBODY })).status, 404)
  })
})
