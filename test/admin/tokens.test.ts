/** API tokens, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { administrator, clientWith, createAdministrator, fieldsOf, signIn } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { sharedService } from '../support/shared-service.ts'

describe('API tokens', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')

  const make = async (body: object, maker = admin) => {
    const reply = await maker.send('POST', '/tokens', body)
    assert.equal(reply.status, 201, reply.text)
    return { ...reply.json, client: clientWith(service.baseUrl, reply.json.token) }
  }

  test('a token works like a login, shows when it was used, and is shown once', async () => {
    const made = await make({ name: 'monitoring' })
    assert.equal(made.role, 'auditor')
    assert.equal(made.expires_at, null)
    assert.equal((await made.client.get('/me')).json.username, 'alice')
    const [listed] = (await admin.get('/tokens')).json
    assert.deepEqual([listed.id, listed.name, 'token' in listed], [made.id, 'monitoring', false])
    assert.ok(Date.parse(listed.last_used_at) > 0)
  })

  test('its role bounds what it may do', async () => {
    const auditor = await make({ name: 'reader', role: 'auditor' })
    const writer = await make({ name: 'writer', role: 'admin' })
    assert.equal((await auditor.client.get('/tokens')).status, 403)
    assert.equal((await writer.client.get('/tokens')).status, 200)
  })

  test('revoked, it is dead at once, and the list still shows it', async () => {
    const made = await make({ name: 'old', role: 'admin' })
    assert.equal((await made.client.send('DELETE', `/tokens/${made.id}`)).status, 204)
    assert.equal((await made.client.get('/me')).status, 401)
    assert.equal((await admin.send('DELETE', `/tokens/${made.id}`)).status, 204)
    const [listed] = (await admin.get('/tokens')).json
    assert.ok(Date.parse(listed.revoked_at) > 0)
    const revocations = (await admin.get('/audit-log?action=token.revoke')).json
    const [entry] = revocations.filter(({ details }: { details: { token_id: string } }) => details.token_id === made.id)
    assert.equal(entry.details.api_token_id, made.id)
  })

  test('it takes rights away, but gives none that would outlive it', async () => {
    const writer = await make({ name: 'offboarding', role: 'admin' })
    const made = await admin.send('POST', '/users', { username: 'leaver', email: 'l@example.com', role: 'auditor' })
    const user = `/users/${made.json.id}`
    for (const change of [{ role: 'admin' }, { enabled: true }, { role: 'admin', enabled: false }]) {
      const reply = await writer.client.send('PATCH', user, change)
      assert.deepEqual([reply.status, reply.json.error], [403, 'forbidden'], JSON.stringify(change))
    }
    assert.equal((await writer.client.send('PATCH', user, { enabled: false, role: 'auditor' })).json.enabled, false)
    assert.equal((await admin.send('PATCH', user, { enabled: true, role: 'admin' })).json.role, 'admin')
  })

  test('it ends at expires_at, which lies in the future', async () => {
    const past = await admin.send('POST', '/tokens', { name: 'late', expires_at: '2020-01-01T00:00:00Z' })
    assert.deepEqual([past.status, past.json.fields[0].field], [400, 'expires_at'])
    const soon = await make({ name: 'soon', expires_at: new Date(Date.now() + 3_600_000).toISOString() })
    assert.equal((await soon.client.get('/me')).status, 200)
    await sql("UPDATE admin_api_tokens SET expires_at = now() - interval '1 second' WHERE id = $1", [soon.id])
    assert.equal((await soon.client.get('/me')).status, 401)
  })

  test('it never outranks its maker, and dies with that account', async () => {
    const user = (await admin.send('POST', '/users', { username: 'bob', email: 'b@example.com', role: 'admin' })).json
    const login = await admin.send('POST', '/auth/login', { username: 'bob', password: user.password })
    const made = await make({ name: 'of bob', role: 'admin' }, clientWith(service.baseUrl, login.json.token))
    assert.equal((await made.client.get('/tokens')).status, 200)
    await admin.send('PATCH', `/users/${user.id}`, { role: 'auditor' })
    assert.equal((await made.client.get('/tokens')).status, 403)
    await admin.send('PATCH', `/users/${user.id}`, { enabled: false })
    assert.equal((await made.client.get('/me')).status, 401)
    await admin.send('DELETE', `/users/${user.id}`)
    assert.equal((await made.client.get('/me')).status, 401)
  })

  test('it cannot take over its maker, nor make what outlives it', async () => {
    const maker = await administrator(service, 'maker')
    const { client } = await make({ name: 'robot', role: 'admin' }, maker)
    for (const [path, body] of [
      ['/me/reset-password', { current_password: 'x' }],
      ['/tokens', { name: 'child' }],
      ['/users', { username: 'child', email: 'child@example.com' }],
    ] as const)
      assert.equal((await client.send('POST', path, body)).status, 403, path)
    assert.equal((await maker.get('/me')).status, 200)
  })

  test('of its maker it reads the user alone', async () => {
    const { client } = await make({ name: 'curious', role: 'admin' })
    assert.equal((await client.get('/me')).status, 200)
    for (const path of ['/me/sessions', '/me/passkeys']) assert.equal((await client.get(path)).status, 403, path)
  })

  test('a new password of its maker ends it', async () => {
    const password = await createAdministrator(service.database, 'hasty')
    const maker = await signIn(service.baseUrl, 'hasty', password)
    const { client } = await make({ name: 'robot', role: 'admin' }, maker)
    assert.equal((await maker.send('POST', '/me/reset-password', { current_password: password })).status, 200)
    assert.equal((await client.get('/me')).status, 401)
  })

  test('a token has no session to log out of', async () => {
    const made = await make({ name: 'logout' })
    const reply = await made.client.send('POST', '/auth/logout')
    assert.equal(reply.status, 400)
    assert.match(reply.json.message, /DELETE \/tokens/)
  })

  test('an unknown or malformed id is 404; a wrong body names its members', async () => {
    for (const id of ['01938c4e-0000-7000-8000-000000000000', 'x'])
      assert.equal((await admin.send('DELETE', `/tokens/${id}`)).status, 404)
    const reply = await admin.send('POST', '/tokens', { role: 'root', token: 'mine' })
    assert.equal(reply.status, 400)
    assert.deepEqual(fieldsOf(reply), ['name', 'role', 'token'])
  })

  test('the metrics ask for the same tokens', async () => {
    const metrics = (headers: Record<string, string> = {}) => fetch(`${service.baseUrl}/metrics`, { headers })
    const refused = await metrics()
    assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer'])
    assert.equal((await metrics({ authorization: 'Bearer x' })).status, 401)
    const { id, token } = await make({ name: 'prometheus' })
    for (const good of [token, admin.token]) {
      const reply = await metrics({ authorization: `Bearer ${good}` })
      assert.equal(reply.status, 200)
      assert.match(await reply.text(), /^# HELP/m)
    }
    await admin.send('DELETE', `/tokens/${id}`)
    assert.equal((await metrics({ authorization: `Bearer ${token}` })).status, 401)
  })

  test('the database has the hash of a token alone', async () => {
    const { token } = await make({ name: 'hashed' })
    const rows = await sql("SELECT t::text || encode(t.token_hash, 'escape') AS row FROM admin_api_tokens t")
    assert.ok(rows.every(({ row }) => !String(row).includes(token.slice(9))))
  })
})
