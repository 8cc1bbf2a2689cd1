/**
 * Clients of the Admin API that nobody here wrote: the reference server's, whose requests are
 * replayed (`test/support/clients/reference-client.ts` says why), and one made from the OpenAPI document.
 */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type Document, OpenAPIClientAxios } from 'openapi-client-axios'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { csrFor, idOf, type Obtained } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { createAdministrator } from '../support/admin.ts'
import { type ReferenceClient, RefusedByService, referenceClient } from '../support/clients/reference-client.ts'
import { rowsIn } from '../support/database.ts'

const SOME_ID = '0192a1b2-0000-7000-8000-000000000000'

describe('clients of the Admin API', () => {
  const { service, responder, client: acme } = acmeScene('small pages')
  let password: string
  let accountId: string
  let obtained: Obtained
  before(async () => {
    password = await createAdministrator(service.database, 'rita')
    obtained = await acme.obtain(['www.rita.test'], responder)
    accountId = idOf(acme.kid)
  })

  describe("the reference server's admin client, replayed", () => {
    let client: ReferenceClient
    before(async () => {
      client = referenceClient(service.baseUrl)
      const { token, user } = await client.request('POST', '/auth/login', { json: { username: 'rita', password } })
      assert.equal(user.username, 'rita')
      client.token = token
    })

    test('users: list, get, create, update, delete, me', async () => {
      const made = await client.request('POST', '/users', {
        json: { username: 'uwe', email: 'uwe@example.com', role: 'auditor' },
      })
      assert.equal(typeof made.password, 'string')
      const columns = (await client.request('GET', '/users')).flatMap(Object.keys)
      for (const column of ['id', 'username', 'email', 'role', 'enabled']) assert.ok(columns.includes(column), column)
      assert.equal((await client.request('GET', `/users/${made.id}`)).username, 'uwe')
      assert.equal((await client.request('PATCH', `/users/${made.id}`, { json: { enabled: false } })).enabled, false)
      assert.equal(await client.request('DELETE', `/users/${made.id}`), undefined)
      assert.equal((await client.request('GET', '/me')).username, 'rita')
    })

    test('errors have a detail and a type to show', async () => {
      const asked = client.request('GET', `/users/${SOME_ID}`)
      await assert.rejects(asked, ({ status, message, type }: RefusedByService) => {
        return status === 404 && message !== '' && type !== undefined
      })
      const stranger = referenceClient(service.baseUrl)
      await assert.rejects(
        stranger.request('GET', '/me'),
        (error) => error instanceof RefusedByService && error.status === 401,
      )
    })

    test('audit: a page, all pages by Link, dates without a time, the export with and without a body', async () => {
      const page = await client.request('GET', '/audit-log', { params: { limit: 1, since: '2020-01-31' } })
      assert.deepEqual([page.length, typeof page[0].created_at], [1, 'string'])
      const all = await client.all('/audit-log', { since: '2020-01-31' })
      assert.ok(all.length > 2, 'more than a page')
      assert.equal(new Set(all.map(({ id }) => id)).size, all.length)
      const logins = await client.all('/audit-log', { action: 'auth.login', limit: 1 })
      assert.deepEqual([...new Set(logins.map(({ action }) => action))], ['auth.login'])
      assert.ok((await client.export('/audit-log/export')).length >= all.length)
      assert.ok((await client.export('/audit-log/export', { action: 'auth.login' })).length >= 1)
    })

    test('eab: list, create, get, identifiers, profile, revoke', async () => {
      const made = await client.request('POST', '/eab', { json: { kid: 'team-r', label: 'a team' } })
      assert.match(made.hmac_key, /^[\w-]{43}$/)
      const [listed] = await client.request('GET', '/eab')
      for (const column of ['id', 'kid', 'label', 'revoked', 'used', 'created_at']) assert.ok(column in listed, column)
      assert.equal('hmac_key' in (await client.request('GET', `/eab/${made.id}`)), false)
      const { id } = await client.request('POST', '/allowed-identifiers', {
        json: { type: 'dns', value: '*.team-r.example' },
      })
      await client.request('PUT', `/eab/${made.id}/allowed-identifiers/${id}`)
      assert.equal((await client.request('GET', `/eab/${made.id}/allowed-identifiers`)).length, 1)
      await client.request('DELETE', `/eab/${made.id}/allowed-identifiers/${id}`)
      assert.equal(await client.request('GET', `/eab/${made.id}/csr-profile`), null)
      const profile = await client.request('POST', '/csr-profiles', { json: { name: 'of team-r', profile_data: {} } })
      await client.request('PUT', `/eab/${made.id}/csr-profile/${profile.id}`)
      // Its unassign reads the id first.
      const assigned = await client.request('GET', `/eab/${made.id}/csr-profile`)
      await client.request('DELETE', `/eab/${made.id}/csr-profile/${assigned.id}`)
      assert.equal((await client.request('POST', `/eab/${made.id}/revoke`)).revoked, true)
    })

    test('identifiers: create, list, get, accounts, delete', async () => {
      const { id } = await client.request('POST', '/allowed-identifiers', {
        json: { type: 'dns', value: 'www.rita.test' },
      })
      const [listed] = await client.request('GET', '/allowed-identifiers')
      for (const column of ['id', 'identifier_type', 'identifier_value', 'account_ids']) assert.ok(column in listed)
      await client.request('PUT', `/allowed-identifiers/${id}/accounts/${accountId}`)
      assert.deepEqual((await client.request('GET', `/allowed-identifiers/${id}`)).account_ids, [accountId])
      assert.equal((await client.request('GET', `/accounts/${accountId}/allowed-identifiers`)).length, 1)
      await client.request('DELETE', `/allowed-identifiers/${id}/accounts/${accountId}`)
      await client.request('DELETE', `/allowed-identifiers/${id}`)
    })

    test('profiles: create, list, get, update, validate, accounts, delete', async () => {
      const json = { name: 'servers', description: 'web servers', profile_data: { san_maximum: 1 } }
      const { id } = await client.request('POST', '/csr-profiles', { json })
      const [listed] = await client.request('GET', '/csr-profiles')
      for (const column of ['id', 'name', 'description', 'created_at']) assert.ok(column in listed, column)
      await client.request('PUT', `/csr-profiles/${id}`, { json: { ...json, profile_data: { san_maximum: 2 } } })
      const csr = Buffer.from(await csrFor(['a.test']), 'base64url').toString('base64')
      const verdict = await client.request('POST', `/csr-profiles/${id}/validate`, { json: { csr } })
      assert.deepEqual([verdict.valid, verdict.violations], [true, []])
      assert.equal(await client.request('GET', `/accounts/${accountId}/csr-profile`), null)
      await client.request('PUT', `/csr-profiles/${id}/accounts/${accountId}`)
      assert.deepEqual((await client.request('GET', `/csr-profiles/${id}`)).account_ids, [accountId])
      assert.equal((await client.request('GET', `/accounts/${accountId}/csr-profile`)).id, id)
      await client.request('DELETE', `/csr-profiles/${id}/accounts/${accountId}`)
      await client.request('DELETE', `/csr-profiles/${id}`)
    })

    test('certificates: search, by serial number, by fingerprint', async () => {
      const fingerprint = fingerprintSha256(obtained.der).replaceAll(':', '').toLowerCase()
      const search = { account_id: accountId, status: 'active', domain: 'www.rita.test', expiring_before: '2100-01-01' }
      const [found] = await client.request('GET', '/certificates', {
        params: { ...search, fingerprint, limit: 10, offset: 0 },
      })
      for (const column of ['serial_number', 'san_values', 'not_after', 'revoked_at'])
        assert.ok(column in found, column)
      const serial = found.serial_number
      assert.equal((await client.request('GET', '/certificates', { params: { serial } })).length, 1)
      assert.equal((await client.request('GET', `/certificates/${serial}`)).fingerprint, found.fingerprint)
      const same = await client.request('GET', `/certificates/by-fingerprint/${fingerprint}`)
      assert.equal(same.serial_number, serial)
    })

    test('certificates: bulk revoke, with and without a reason', async () => {
      const filter = { domain: 'www.rita.test' }
      const dry = await client.request('POST', '/certificates/bulk-revoke', { json: { filter, dry_run: true } })
      assert.deepEqual([dry.dry_run, dry.matching_certificates, dry.serial_numbers.length], [true, 1, 1])
      const json = { filter, dry_run: false, reason: 4 }
      const done = await client.request('POST', '/certificates/bulk-revoke', { json })
      assert.deepEqual([done.revoked, done.errors, done.total_matched], [1, [], 1])
    })

    test('notifications: list, retry, purge with and without days', async () => {
      await rowsIn(
        service.database,
        `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, message_id, status, error_detail)
         VALUES (gen_random_uuid(), 'account_deactivated', 'ops@example.com', 'A subject', '', '', '', 'failed', 'no')`,
      )
      const params = { status: 'failed', limit: 5, offset: 0 }
      const [failed, ...others] = await client.request('GET', '/notifications', { params })
      assert.deepEqual([failed.error_detail, failed.recipient, others], ['no', 'ops@example.com', []])
      assert.deepEqual(await client.request('POST', '/notifications/retry'), { retried: 1 })
      for (const json of [undefined, { days: 7 }])
        assert.equal(
          typeof (await client.request('POST', '/notifications/purge', { ...(json && { json }) })).purged,
          'number',
        )
    })

    test('crl: rebuild says 503 while the service makes no lists', async () => {
      const asked = client.request('POST', '/crl/rebuild')
      await assert.rejects(asked, ({ status, message }: RefusedByService) => status === 503 && message !== '')
    })

    test('maintenance: show, on and off', async () => {
      for (const enabled of [true, false]) {
        const { maintenance_mode } = await client.request('POST', '/maintenance', { json: { enabled } })
        assert.equal(maintenance_mode, enabled)
      }
      assert.equal((await client.request('GET', '/maintenance')).maintenance_mode, false)
    })

    test('logout: a JSON reply, and the token is good no more', async () => {
      const leaving = referenceClient(service.baseUrl)
      leaving.token = (await leaving.request('POST', '/auth/login', { json: { username: 'rita', password } })).token
      assert.deepEqual(await leaving.request('POST', '/auth/logout'), { status: 'logged_out' })
      await assert.rejects(leaving.request('GET', '/me'), (error) => (error as RefusedByService).status === 401)
    })
  })

  describe('a client made from the OpenAPI document by openapi-client-axios', () => {
    test('signs in, lists, makes, reads, and gets the errors of the description', async () => {
      const definition = (await (await fetch(`${service.baseUrl}/api/openapi.json`)).json()) as Document
      const client = await new OpenAPIClientAxios({ definition }).init()
      // biome-ignore lint/suspicious/noExplicitAny: replies of any shape
      const call = async (id: string, params?: Record<string, string | number>, body?: object): Promise<any> => {
        const operation = client[id]
        assert.ok(operation, id)
        return (await operation(params, body)).data
      }
      const { token } = await call('login', {}, { username: 'rita', password })
      client.defaults.headers.common.Authorization = `Bearer ${token}`
      const made = await call('createUser', {}, { username: 'olga', email: 'olga@example.com' })
      assert.equal(made.role, 'auditor')
      const users = await call('listUsers')
      assert.ok(users.some(({ username }: { username: string }) => username === 'olga'))
      assert.equal((await call('getUser', { user_id: made.id })).username, 'olga')
      const [entry] = await call('listAuditLog', { limit: 1, action: 'user.create' })
      assert.equal(entry.target_user_id, made.id)
      await assert.rejects(
        call('getUser', { user_id: SOME_ID }),
        ({ response }) => response.status === 404 && response.data.error === 'not_found',
      )
    })
  })
})
