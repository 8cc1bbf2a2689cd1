/** What an administrator is told when others hold a row for too long. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { asAdminError } from '../../src/admin/admin-errors.ts'
import { Problem } from '../../src/shared/protocol/problem.ts'
import { type AdminClient, createAdministrator, signIn } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, boundClient, type MadeCredential, made } from '../support/bound.ts'
import { withQuery } from '../support/revoked.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

test('what a front refuses itself at a path of the Admin API has the form of the Admin API', async () => {
  const service = await sharedService('small pages')
  const reply = await fetch(`${service.baseUrl}/api/accounts?domain=${'x'.repeat(15_000)}`)
  const { error, message, request_id } = JSON.parse(await reply.text())
  assert.deepEqual([reply.status, error, message], [400, 'invalid_request', 'a URL may have at most 14500 bytes'])
  assert.match(request_id, /./)
  const late = new Problem('serverInternal', 'the request took longer than 4 seconds', {
    status: 503,
    retryAfterSeconds: 5,
  })
  const { code, options } = asAdminError(late)
  assert.deepEqual([code, options.retryAfterSeconds], ['unavailable', 5])
})

describe('while another holds the row of an account', () => {
  const { service } = administered(() => sharedService('small pages'))
  let admin: AdminClient
  let credential: MadeCredential
  let account: string
  before(async () => {
    const password = await createAdministrator(service.database, 'alice')
    // On a busy machine a hash takes longer than a request may.
    admin = await until('signed in', () => signIn(service.baseUrl, 'alice', password).catch(() => undefined))
    credential = await made<MadeCredential>(admin, '/eab', { kid: 'team' })
    account = accountIdOf(await boundClient(service, credential))
  })

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
