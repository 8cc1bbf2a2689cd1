/** Passkeys over HTTP, with an authenticator that says what a test wants. */

import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { Authenticator, type Saying } from '../../bench/client/authenticator.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { NO_PASSWORD } from '../../src/admin/users/passwords.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { type AdminClient, administrator, adminRequest, clientWith, createAdministrator } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import type { TestDatabase } from '../support/database.ts'
import { operate } from '../support/operator.ts'
import { CONSOLE_ORIGIN, sharedService } from '../support/shared-service.ts'

const foreignKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey

describe('passkeys', () => {
  const { service, sql } = administered(() => sharedService('identities'))
  let passwords = 0

  const post = (path: string, body: object = {}, token?: string) =>
    adminRequest(service.baseUrl, 'POST', path, { body, ...(token && { token }) })
  const options = async () => (await post('/auth/passkey/options')).json
  const signIn = async (authenticator: Authenticator, says: Saying = {}) =>
    post('/auth/passkey', { credential: authenticator.get(await options(), says) })

  async function person(name = `user-${++passwords}`) {
    const password = await createAdministrator(service.database, name, 'admin')
    const login = () => post('/auth/login', { username: name, password })
    return { name, password, login, client: clientWith(service.baseUrl, (await login()).json.token) }
  }

  async function register(client: AdminClient, says: Saying = {}, authenticator = new Authenticator(CONSOLE_ORIGIN)) {
    const wanted = (await client.send('POST', '/me/passkeys/options')).json
    const body = { name: 'blue key', credential: authenticator.create(wanted, says) }
    return { authenticator, reply: await client.send('POST', '/me/passkeys', body), body }
  }

  test('a registered passkey signs in without a username, and is two factors', async () => {
    const { name, client } = await person()
    const { authenticator, reply } = await register(client)
    assert.equal(reply.status, 201, reply.text)
    const { json, status } = await signIn(authenticator)
    assert.deepEqual([status, json.user.username], [200, name])
    const own = clientWith(service.baseUrl, json.token)
    const [session] = (await own.get('/me/sessions')).json
    assert.deepEqual(session.methods, ['passkey'])
    const [listed] = (await own.get('/me/passkeys')).json
    assert.deepEqual([listed.name, typeof listed.last_used_at], ['blue key', 'string'])
  })

  test('once there is one, the password alone gives no session', async () => {
    const { client, login } = await person()
    const { authenticator } = await register(client)
    const { status, json } = await login()
    assert.deepEqual([status, Object.keys(json)], [202, ['second_factor']])
    const credential = authenticator.get(json.second_factor)
    const done = await post('/auth/passkey', { credential })
    assert.equal(done.status, 200, done.text)
    const [session] = (await clientWith(service.baseUrl, done.json.token).get('/me/sessions')).json
    assert.deepEqual(session.methods, ['password', 'passkey'])
  })

  describe('an assertion is refused', () => {
    let authenticator: Authenticator
    before(async () => {
      authenticator = (await register((await person()).client)).authenticator
    })
    const wrong: [string, () => Saying][] = [
      ['from another origin', () => ({ origin: 'https://console.corp.example.evil.test' })],
      ['from the origin without TLS', () => ({ origin: 'http://console.corp.example' })],
      ['for another relying party', () => ({ rpId: 'corp.example' })],
      ['without user verification', () => ({ flags: 0x01 })],
      ['without user presence', () => ({ flags: 0x04 })],
      ['of a registration', () => ({ type: 'webauthn.create' })],
      ['by another key', () => ({ key: foreignKey() })],
      ['by a key of another kind', () => ({ key: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey })],
      ['for another user', () => ({ userHandle: Buffer.from('somebody else').toString('base64url') })],
      ['for nobody', () => ({ userHandle: undefined })],
      ['for nobody, as null', () => ({ userHandle: null })],
      ['from a page inside another one', () => ({ crossOrigin: true })],
      ['from a page inside one of another origin', () => ({ crossOrigin: true, topOrigin: 'https://evil.test' })],
      ['of an unknown credential', () => ({ id: Buffer.from('unknown').toString('base64url') })],
      ['with a challenge of its own', () => ({ challenge: Buffer.alloc(64, 7).toString('base64url') })],
      ['with an empty challenge', () => ({ challenge: '' })],
      ['with a counter that went back', () => ({ counter: 0 })],
      ['that was cut off', () => ({ cut: 5 })],
    ]
    for (const [what, says] of wrong)
      test(what, async () => {
        assert.equal((await signIn(authenticator)).status, 200)
        const reply = await signIn(authenticator, says())
        assert.equal(reply.status, 401, reply.text)
        assert.equal(reply.json.token, undefined)
      })
  })

  test('a known passkey that is refused is in the audit log with the reason, an unknown one is not', async () => {
    const { name, client } = await person()
    const { authenticator } = await register(client)
    assert.equal((await signIn(authenticator)).status, 200)
    await sql('DELETE FROM admin_failed_logins')
    const failed = () =>
      sql<{ details: Record<string, string> }>(
        "SELECT details FROM admin_audit_log WHERE action = 'auth.login_failed' AND details ->> 'by' = 'passkey' ORDER BY sequence",
      )
    const before = (await failed()).length
    const unknown = { id: Buffer.from('unknown').toString('base64url') }
    for (const says of [unknown, { counter: 0 }])
      assert.equal((await signIn(authenticator, says)).status, 401, JSON.stringify(says))
    const [entry, ...others] = (await failed()).slice(before)
    assert.deepEqual([entry?.details['username'], others], [name, []])
    assert.match(entry?.details['reason'] ?? '', /counter/i)
  })

  test('a challenge is answered once, also by two at the same time', async () => {
    const { authenticator } = await register((await person()).client)
    const wanted = await options()
    const credential = authenticator.get(wanted)
    const replies = await Promise.all([1, 2, 3].map(() => post('/auth/passkey', { credential })))
    assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 401, 401])
    const again = { credential: authenticator.get(wanted) }
    assert.equal((await post('/auth/passkey', again)).status, 401, 'a new signature over the same challenge')
  })

  test('a challenge is answered once on all instances', async () => {
    const other = await adminInstance(service)
    try {
      const { authenticator } = await register((await person()).client)
      const credential = authenticator.get(await options())
      const body = { credential }
      const replies = await Promise.all([
        adminRequest(other.baseUrl, 'POST', '/auth/passkey', { body }),
        post('/auth/passkey', body),
      ])
      assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 401])
    } finally {
      await other.close()
    }
  })

  test('a challenge is for its purpose and its user alone', async () => {
    const [ann, ben] = [await person(), await person()]
    const [ofAnn, ofBen] = [await register(ann.client), await register(ben.client)]
    const secondOfAnn = (await ann.login()).json.second_factor
    const credential = ofBen.authenticator.get(secondOfAnn)
    assert.equal((await post('/auth/passkey', { credential })).status, 401, "another user's key behind a password")
    const confirm = (await ann.client.send('POST', '/auth/confirm/options')).json.passkey
    const forSignIn = ofAnn.authenticator.get(confirm)
    assert.equal((await post('/auth/passkey', { credential: forSignIn })).status, 401, 'a confirmation signs nobody in')
    const registration = (await ann.client.send('POST', '/me/passkeys/options')).json
    const misused = ofAnn.authenticator.get(registration)
    assert.equal((await post('/auth/passkey', { credential: misused })).status, 401, 'nor does a registration')
    const foreign = { name: 'x', credential: new Authenticator(CONSOLE_ORIGIN).create(registration) }
    assert.equal((await ben.client.send('POST', '/me/passkeys', foreign)).status, 401, "in another one's session")
  })

  test('a password that was reset in between makes its half of the sign-in worthless', async () => {
    const { name, client, login } = await person()
    const { authenticator } = await register(client)
    const { second_factor } = (await login()).json
    await operate(service, 'users', 'reset-password', name)
    const credential = authenticator.get(second_factor)
    assert.equal((await post('/auth/passkey', { credential })).status, 401)
  })

  test('a disabled user is out, and a removed passkey, too', async () => {
    const { client } = await person()
    const { authenticator, reply } = await register(client)
    const { id } = (await client.get('/me')).json
    const admin = await administrator(service, `admin-${++passwords}`)
    await admin.send('PATCH', `/users/${id}`, { enabled: false })
    assert.equal((await signIn(authenticator)).status, 401)
    await admin.send('PATCH', `/users/${id}`, { enabled: true })
    const { json } = await signIn(authenticator)
    const own = clientWith(service.baseUrl, json.token)
    assert.equal((await own.send('DELETE', `/me/passkeys/${reply.json.id}`)).status, 204)
    assert.equal((await signIn(authenticator)).status, 401)
  })

  test('a user who was deleted or disabled in the middle is out', async () => {
    const admin = await administrator(service, `admin-${++passwords}`)
    for (const end of ['disable', 'delete']) {
      const { client, login } = await person()
      const { authenticator } = await register(client)
      const { id } = (await client.get('/me')).json
      const { second_factor } = (await login()).json
      if (end === 'disable') await admin.send('PATCH', `/users/${id}`, { enabled: false })
      else assert.equal((await admin.send('DELETE', `/users/${id}`)).status, 204)
      const credential = authenticator.get(second_factor)
      assert.equal((await post('/auth/passkey', { credential })).status, 401, end)
    }
  })

  test('a passkey may attest itself', async () => {
    const { authenticator, reply } = await register((await person()).client, { format: 'packed' })
    assert.equal(reply.status, 201, reply.text)
    assert.equal((await signIn(authenticator)).status, 200)
  })

  test('behind a password the user handle may be left out', async () => {
    const { client, login } = await person()
    const { authenticator } = await register(client)
    for (const userHandle of [undefined, null]) {
      const credential = authenticator.get((await login()).json.second_factor, { userHandle })
      assert.equal((await post('/auth/passkey', { credential })).status, 200)
    }
  })

  test('who signs in at a provider alone has no passkey, which would outlive the groups there', async () => {
    const { name, client } = await person()
    await sql(`UPDATE admin_users SET password_hash = '${NO_PASSWORD}' WHERE username = '${name}'`)
    const { status, json } = await client.send('POST', '/me/passkeys/options')
    assert.deepEqual([status, json.error], [409, 'conflict'])
  })

  test('a registration that began after a recent sign-in may end when the sign-in is no longer recent', async () => {
    const { name, client } = await person()
    const wanted = (await client.send('POST', '/me/passkeys/options')).json
    await sql(
      `UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'
        WHERE user_id = (SELECT id FROM admin_users WHERE username = $1)`,
      [name],
    )
    const { json } = await client.send('POST', '/me/passkeys/options')
    assert.equal(json.error, 'sign_in_again')
    const credential = new Authenticator(CONSOLE_ORIGIN).create(wanted)
    const { status, text } = await client.send('POST', '/me/passkeys', { name: 'late', credential })
    assert.equal(status, 201, text)
  })

  describe('a registration is refused', () => {
    const wrong: [string, Saying][] = [
      ['from another origin', { origin: 'https://evil.test' }],
      ['for another relying party', { rpId: 'evil.test' }],
      ['without user verification', { flags: 0x41 }],
      ['without the credential', { flags: 0x05 }],
      ['of an assertion', { type: 'webauthn.get' }],
      ['with an algorithm that was not asked for', { algorithm: -65_535 }],
      ['with a challenge of its own', { challenge: 'AAAA' }],
      ['that was cut off', { cut: 20 }],
      ['from a page inside another one', { crossOrigin: true }],
      ['attested by a key that is not the new one', { format: 'packed', key: foreignKey() }],
      ['attested in a way that would have the service fetch CRLs', { format: 'android-key' }],
      ['attested in an unknown way', { format: 'other' }],
      ['without CBOR', { attestation: Buffer.from('text') }],
      ['of CBOR in CBOR without end', { attestation: Buffer.alloc(6_000, 0x81) }],
      ['of CBOR that says it is longer', { attestation: Buffer.from('bb7fffffffffffffff', 'hex') }],
    ]
    for (const [what, says] of wrong)
      test(what, async () => {
        const { reply } = await register((await person()).client, says)
        assert.equal(reply.status, 401, reply.text)
      })

    test('a second time, and of a credential that another user has', async () => {
      const first = await person()
      const { authenticator, body } = await register(first.client)
      assert.equal((await first.client.send('POST', '/me/passkeys', body)).status, 401)
      const { reply } = await register((await person()).client, {}, authenticator)
      assert.equal(reply.status, 409)
    })

    test('of a challenge of another session, also of the same user', async () => {
      const { client, login } = await person()
      const wanted = (await client.send('POST', '/me/passkeys/options')).json
      const body = { name: 'x', credential: new Authenticator(CONSOLE_ORIGIN).create(wanted) }
      const other = clientWith(service.baseUrl, (await login()).json.token)
      assert.equal((await other.send('POST', '/me/passkeys', body)).status, 401)
      assert.equal((await client.send('POST', '/me/passkeys', body)).status, 201)
    })

    test('by an API token', async () => {
      const { client } = await person()
      const { token } = (await client.send('POST', '/tokens', { name: 't', role: 'admin' })).json
      assert.equal((await clientWith(service.baseUrl, token).send('POST', '/me/passkeys/options')).status, 403)
    })

    test('in form, before anything is computed', async () => {
      const { client } = await person()
      for (const credential of [{}, { id: 'x'.repeat(2_000) }, 'text', null])
        assert.equal((await client.send('POST', '/me/passkeys', { name: 'x', credential })).status, 400)
      const huge = { id: 'a', rawId: 'a', type: 'public-key', response: { clientDataJSON: 'A'.repeat(17_000) } }
      assert.equal((await post('/auth/passkey', { credential: huge })).status, 413)
      assert.equal((await post('/auth/passkey', { credential: { ...huge, response: {} } })).status, 400)
    })
  })

  test('a right password that no passkey follows is in the audit log: once in five minutes, and once after a sign-in', async () => {
    const { name, client, login } = await person()
    const { authenticator } = await register(client)
    const asked = async () =>
      sql(
        `SELECT ip_address, target_user_id = user_id AS is_own FROM admin_audit_log
          WHERE action = 'auth.second_factor_asked' AND details ->> 'username' = $1`,
        [name],
      )
    assert.deepEqual(await asked(), [])
    for (let i = 0; i < 3; i++) assert.equal((await login()).status, 202)
    assert.deepEqual(await asked(), [{ ip_address: '127.0.0.1', is_own: true }])
    const credential = authenticator.get((await login()).json.second_factor)
    assert.equal((await post('/auth/passkey', { credential })).status, 200)
    for (let i = 0; i < 3; i++) await login()
    assert.equal((await asked()).length, 2)
  })

  test('who has a passkey confirms with it, and not with the password', async () => {
    const { client, password } = await person()
    const { authenticator } = await register(client)
    assert.equal((await client.send('POST', '/auth/confirm', { password })).status, 403)
    const wanted = (await client.send('POST', '/auth/confirm/options')).json.passkey
    const credential = authenticator.get(wanted)
    assert.equal((await client.send('POST', '/auth/confirm', { credential })).status, 200)
    assert.equal((await client.send('POST', '/auth/confirm', { credential })).status, 401)
  })

  test('who has lost all is helped at the host alone, and the audit log says so', async () => {
    const { name, client, login } = await person()
    await register(client)
    assert.match(await operate(service, 'users', 'reset-second-factor', name), /1 removed/)
    assert.equal((await client.get('/me')).status, 401)
    assert.equal((await login()).status, 200)
    const entries = await sql(
      "SELECT details->>'passkeys' AS n FROM admin_audit_log WHERE action = 'user.reset_second_factor'",
    )
    assert.deepEqual(entries, [{ n: '1' }])
  })
})

describe('where a second factor is required', () => {
  let instance: AdminInstance
  let here: { baseUrl: string; database: TestDatabase }
  before(async () => {
    const service = await sharedService('identities')
    instance = await adminInstance(service, { admin_api: { require_second_factor: true } })
    here = { baseUrl: instance.baseUrl, database: service.database }
  })
  after(() => instance?.close())

  test('a password alone may only enrol, at every endpoint; with a passkey everything is open', async () => {
    const client = await administrator(here, 'nina')
    for (const { id, method, path, permission, enrols, body } of ENDPOINTS) {
      if (permission === 'none' || enrols) continue
      const reply = await client.send(method, path.replaceAll(/\{[^}]+\}/g, 'x'), body ? {} : undefined)
      assert.deepEqual([reply.status, reply.json?.error], [403, 'second_factor_needed'], id)
    }
    const authenticator = new Authenticator(CONSOLE_ORIGIN)
    const wanted = (await client.send('POST', '/me/passkeys/options')).json
    const body = { name: 'key', credential: authenticator.create(wanted) }
    const made = await client.send('POST', '/me/passkeys', body)
    assert.equal(made.status, 201, made.text)
    assert.equal((await client.get('/users')).status, 200)
    const last = await client.send('DELETE', `/me/passkeys/${made.json.id}`)
    assert.equal(last.status, 409, 'the last one stays')
  })

  test('of the last two passkeys one stays, when both are removed at once', async () => {
    const client = await administrator(here, 'otto')
    const ids: string[] = []
    for (const name of ['a', 'b']) {
      const wanted = (await client.send('POST', '/me/passkeys/options')).json
      const body = { name, credential: new Authenticator(CONSOLE_ORIGIN).create(wanted) }
      ids.push((await client.send('POST', '/me/passkeys', body)).json.id)
    }
    const replies = await Promise.all(ids.map((id) => client.send('DELETE', `/me/passkeys/${id}`)))
    assert.deepEqual(replies.map(({ status }) => status).sort(), [204, 409])
  })
})
