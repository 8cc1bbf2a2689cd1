/** Users and sessions of the Admin API, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { adminRequest, clientWith, fieldsOf, signIn } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { each } from '../support/each.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const AN_HOUR_AGO = `UPDATE admin_sessions SET authenticated_at = now() - interval '1 hour'
  WHERE user_id = (SELECT id FROM admin_users WHERE username = $1)`

describe('users of the Admin API', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')

  const makeUser = async (username: string, role = 'auditor') => {
    const reply = await admin.send('POST', '/users', { username, email: `${username}@example.com`, role })
    assert.equal(reply.status, 201, reply.text)
    return reply.json
  }

  test('the bare base path names the service', async () => {
    const reply = await adminRequest(service.baseUrl, 'GET', '')
    assert.equal(reply.status, 200)
    assert.equal(reply.json.name, 'chancery')
    assert.equal(reply.headers.get('cache-control'), 'no-store')
    assert.match(reply.headers.get('content-security-policy') ?? '', /default-src 'none'/)
  })

  test('a created user gets a password of every class of characters, once, and can sign in with it', async () => {
    const made = await makeUser('bob')
    for (const wanted of [/[A-Z]/, /[a-z]/, /\d/, /[!@#$%^&*\-_+=]/, /^.{20}$/]) assert.match(made.password, wanted)
    const bob = await signIn(service.baseUrl, 'bob', made.password)
    const me = await bob.get('/me')
    assert.equal(me.json.username, 'bob')
    assert.equal('password' in me.json, false)
    assert.deepEqual((await admin.get(`/users/${made.id}`)).json.role, 'auditor')
  })

  test('a taken username is a conflict, in any case of its letters', async () => {
    await makeUser('carol')
    const reply = await admin.send('POST', '/users', { username: 'CAROL', email: 'c@example.com' })
    assert.equal(reply.status, 409)
    assert.deepEqual([reply.json.error, reply.json.status], ['conflict', 409])
    assert.equal(reply.json.message, reply.json.detail)
  })

  test('a username is plain ASCII: nobody takes two that look alike for one another', async () => {
    for (const username of [
      '\u212aarl',
      'stra\u00dfe',
      'I\u0307lse',
      '\u0430lice',
      'a b',
      '-a',
      '.a',
      'a'.repeat(129),
    ]) {
      const reply = await admin.send('POST', '/users', { username, email: 'x@example.com' })
      assert.deepEqual([reply.status, reply.json.fields?.[0].field], [400, 'username'], username)
    }
    for (const username of ['_svc', 'ann.b-c@example.com', 'A+1']) {
      const reply = await admin.send('POST', '/users', { username, email: 'x@example.com' })
      assert.deepEqual([reply.status, reply.json.username], [201, username])
    }
  })

  test('every wrong member is named, and what is right', async () => {
    const reply = await admin.send('POST', '/users', { usrname: 'x', email: 'nowhere', role: 'root' })
    assert.equal(reply.status, 400)
    assert.deepEqual(fieldsOf(reply), ['email', 'role', 'username', 'usrname'])
    assert.match(reply.text, /did you mean 'username'/)
    assert.match(reply.text, /must be one of \\"admin\\", \\"operator\\", \\"registrar\\", \\"auditor\\"/)
  })

  test('a member of another type is not told to be missing', async () => {
    const sentences = async (body: object) =>
      (await admin.send('POST', '/users', body)).json.fields.map(({ message }: { message: string }) => message)
    assert.deepEqual(await sentences({ username: 7, email: null }), ['must be a string', 'must be a string'])
    assert.deepEqual(await sentences({ username: 'x' }), ['is missing; it must be a string'])
    const missing = await admin.send('POST', '/allowed-identifiers', { value: 'a.test' })
    assert.equal(missing.json.fields[0].message, 'is missing; it must be one of "dns", "ip"')
  })

  test('an auditor reads users and changes none', async () => {
    assert.equal((await auditor.get('/users')).status, 200)
    const reply = await auditor.send('POST', '/users', { username: 'eve', email: 'eve@example.com' })
    assert.deepEqual([reply.status, reply.json.error], [403, 'forbidden'])
  })

  test('without a token: 401 with WWW-Authenticate', async () => {
    const reply = await adminRequest(service.baseUrl, 'GET', '/users')
    assert.equal(reply.status, 401)
    assert.equal(reply.headers.get('www-authenticate'), 'Bearer')
  })

  test('logout everywhere ends every session, and those of nobody else', async () => {
    const { password } = await makeUser('dora')
    const [first, second] = [
      await signIn(service.baseUrl, 'dora', password),
      await signIn(service.baseUrl, 'dora', password),
    ]
    assert.deepEqual((await first.send('POST', '/auth/logout-everywhere')).json, { sessions: 2 })
    assert.deepEqual([(await first.get('/me')).status, (await second.get('/me')).status], [401, 401])
    assert.equal((await admin.get('/me')).status, 200)
  })

  test('a change of role counts at once; a disabled user is out', async () => {
    const { id, password } = await makeUser('erin', 'admin')
    const erin = await signIn(service.baseUrl, 'erin', password)
    assert.equal((await admin.send('PATCH', `/users/${id}`, { role: 'auditor' })).json.role, 'auditor')
    assert.equal((await erin.send('DELETE', `/users/${id}`)).status, 403)
    assert.equal((await admin.send('PATCH', `/users/${id}`, { enabled: false })).json.enabled, false)
    assert.equal((await erin.get('/me')).status, 401)
  })

  test('a new password ends every session', async () => {
    const { password } = await makeUser('frank')
    const [first, second] = [
      await signIn(service.baseUrl, 'frank', password),
      await signIn(service.baseUrl, 'frank', password),
    ]
    const reply = await first.send('POST', '/me/reset-password', { current_password: password })
    assert.notEqual(reply.json.password, password)
    assert.deepEqual([(await first.get('/me')).status, (await second.get('/me')).status], [401, 401])
    await signIn(service.baseUrl, 'frank', reply.json.password)
  })

  test('whoever has signed in or confirmed lately needs no body for a new password', async () => {
    const { password } = await makeUser('fiona', 'auditor')
    const fiona = await signIn(service.baseUrl, 'fiona', password)
    const reset = await fiona.send('POST', '/me/reset-password')
    assert.equal(reset.status, 200, reset.text)
    const again = await signIn(service.baseUrl, 'fiona', reset.json.password)
    await sql(AN_HOUR_AGO, ['fiona'])
    assert.equal((await again.send('POST', '/me/reset-password')).status, 403)
    assert.equal((await again.send('POST', '/auth/confirm', { password: reset.json.password })).status, 200)
    assert.equal((await again.send('POST', '/me/reset-password')).status, 200)
  })

  test('who has a session alone cannot change the password, nor guess it', async () => {
    const { id, password } = await makeUser('felix', 'admin')
    const stolen = await signIn(service.baseUrl, 'felix', password)
    const change = (body?: object) => stolen.send('POST', '/me/reset-password', body)
    const asAnother = await stolen.send('POST', `/users/${id}/reset-password`)
    assert.deepEqual([asAnother.status, asAnother.json.error], [403, 'forbidden'])
    await sql(AN_HOUR_AGO, ['felix'])
    for (const nothing of [await change(), await change({})])
      assert.deepEqual(
        [nothing.status, nothing.json.message],
        [
          403,
          'a new password needs current_password, or confirm that it is you (POST /auth/confirm) at most 900 seconds before',
        ],
      )
    const wrong = await change({ current_password: 'a guess' })
    assert.deepEqual([wrong.status, wrong.json.message], [403, 'the current password is wrong'])
    for (let guess = 2; guess <= 5; guess++) assert.equal((await change({ current_password: `${guess}` })).status, 403)
    assert.equal((await change({ current_password: password })).status, 429)
    assert.equal((await stolen.get('/me')).status, 200)
    const [entry] = (await admin.get('/audit-log?action=auth.locked&limit=1')).json
    assert.equal(entry.target_user_id, id)
  })

  test('an admin gives another a new password; an API token and an auditor cannot', async () => {
    const { id, password } = await makeUser('grace')
    const grace = await signIn(service.baseUrl, 'grace', password)
    const machine = (await admin.send('POST', '/tokens', { name: 'robot', role: 'admin' })).json.token
    for (const client of [auditor, clientWith(service.baseUrl, machine)])
      assert.equal((await client.send('POST', `/users/${id}/reset-password`)).status, 403)
    const reply = await admin.send('POST', `/users/${id}/reset-password`)
    assert.deepEqual([reply.status, reply.json.username], [200, 'grace'], reply.text)
    assert.equal((await grace.get('/me')).status, 401)
    await signIn(service.baseUrl, 'grace', reply.json.password)
    const [entry] = (await admin.get('/audit-log?action=user.reset_password&limit=1')).json
    assert.equal(entry.target_user_id, id)
  })

  test('a locked name and a locked address are unlocked, and the audit log has it', async () => {
    const { id } = await makeUser('heidi')
    const body = { username: 'heidi', password: 'wrong' }
    for (let i = 0; i < 5; i++) await adminRequest(service.baseUrl, 'POST', '/auth/login', { body })
    assert.equal((await adminRequest(service.baseUrl, 'POST', '/auth/login', { body })).status, 429)
    const unlock = async () => (await admin.send('POST', `/users/${id}/unlock`)).json
    assert.deepEqual(await unlock(), { username: 'heidi', unlocked: true })
    assert.deepEqual(await unlock(), { username: 'heidi', unlocked: false })
    const [{ ip_address: address }] = (await admin.get('/audit-log?action=auth.login_failed&limit=1')).json
    const unlockAddress = (address: string) => admin.send('POST', '/users/unlock-address', { address })
    assert.deepEqual((await unlockAddress(address)).json, { address, unlocked: true })
    assert.deepEqual((await unlockAddress(address)).json, { address, unlocked: false })
    assert.match((await unlockAddress('here')).text, /'address' must be an IP address/)
    assert.equal((await adminRequest(service.baseUrl, 'POST', '/auth/login', { body })).status, 401)
    const unlocked: { details: object }[] = (await admin.get('/audit-log?action=user.unlock')).json
    assert.deepEqual(each(unlocked, 'details'), [{ address }, { username: 'heidi' }])
  })

  test('more passwords at once than may wait are told to come back', async () => {
    const isRefused = async () => {
      const email = 'x@example.com'
      const asked = Array.from({ length: 24 }, () => admin.send('POST', '/users', { username: 'alice', email }))
      const refused = (await Promise.all(asked)).filter(({ status }) => status === 429)
      for (const { json, headers } of refused)
        assert.deepEqual(
          [json.error, json.detail, headers.get('retry-after')],
          ['rate_limited', 'too many passwords at once; try again', '2'],
        )
      return refused.length > 0
    }
    await until('one is refused', isRefused)
    assert.equal((await admin.send('POST', '/users', { username: 'alice', email: 'x@example.com' })).status, 409)
  })

  test('the last enabled admin is neither disabled, demoted nor deleted', async () => {
    const me = (await admin.get('/me')).json
    const others = (await admin.get('/users')).json.filter(
      (user: { role: string; enabled: boolean; id: string }) =>
        user.role === 'admin' && user.enabled && user.id !== me.id,
    )
    for (const { id } of others) await admin.send('DELETE', `/users/${id}`)
    for (const [method, body] of [
      ['PATCH', { enabled: false }],
      ['PATCH', { role: 'auditor' }],
      ['DELETE', undefined],
    ] as const)
      assert.equal((await admin.send(method, `/users/${me.id}`, body)).status, 409)
    assert.equal((await admin.get('/me')).json.role, 'admin')
  })
})
