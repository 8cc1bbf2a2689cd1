/** What an administrator is told when others hold a row for too long. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AdminClient, adminConfig, createAdministrator, signIn } from '../support/admin.ts'
import { accountIdOf, boundClient, type MadeCredential, made } from '../support/bound.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('while another holds the row of an account', () => {
  let service: TestService
  let admin: AdminClient
  let credential: MadeCredential
  let account: string
  before(async () => {
    service = await startTestService({ config: { ...adminConfig(), server: { timeout: 4 } } })
    const password = await createAdministrator(service.database, 'alice')
    // On a busy machine a hash takes longer than a request may.
    admin = await until('signed in', () => signIn(service.baseUrl, 'alice', password).catch(() => undefined))
    credential = await made<MadeCredential>(admin, '/eab', { kid: 'team' })
    account = accountIdOf(await boundClient(service, credential))
  })
  after(() => service.dispose())

  test('a request that needs it is told to come back, and changes nothing', async () => {
    await withQuery(service.database.connection, async (query) => {
      await query('BEGIN')
      await query('SELECT FROM accounts WHERE id = $1 FOR UPDATE', [account])
      for (const path of [`/eab/${credential.id}/revoke`, `/accounts/${account}/deactivate`]) {
        const reply = await admin.send('POST', path)
        assert.deepEqual([reply.status, reply.json.error], [503, 'unavailable'], `${path} ${reply.text}`)
        assert.ok(Number(reply.headers.get('retry-after')) > 0)
        assert.doesNotMatch(reply.text, /SELECT|UPDATE|statement/)
      }
      await query('ROLLBACK')
    })
    assert.equal((await admin.get(`/eab/${credential.id}`)).json.revoked, false)
    assert.equal((await admin.send('POST', `/eab/${credential.id}/revoke`)).json.revoked, true)
  })
})
