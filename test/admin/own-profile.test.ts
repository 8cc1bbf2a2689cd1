/** One's own profile and password, and sessions with their end, over HTTP. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { adminRequest, createAdministrator } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { sharedService } from '../support/shared-service.ts'

describe('a user', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('pia')

  const login = async (username: string, password: string) => {
    const body = { username, password }
    return (await adminRequest(service.baseUrl, 'POST', '/auth/login', { body })).json.token as string
  }
  const by = (token: string) => (method: string, path: string, body?: object) =>
    adminRequest(service.baseUrl, method, path, { token, ...(body && { body }) })

  test('sees each session with address, browser and way, and ends another one', async () => {
    const password = await createAdministrator(service.database, 'rita', 'auditor')
    const [first, second] = [by(await login('rita', password)), by(await login('rita', password))]
    const sessions = (await first('GET', '/me/sessions')).json
    assert.equal(sessions.length, 2)
    const own = sessions.find(({ is_current }: { is_current: boolean }) => is_current)
    assert.deepEqual([own.ip_address, own.methods, typeof own.user_agent], ['127.0.0.1', ['password'], 'string'])
    const other = sessions.find(({ is_current }: { is_current: boolean }) => !is_current)
    assert.equal((await first('DELETE', `/me/sessions/${other.id}`)).status, 204)
    assert.equal((await second('GET', '/me')).status, 401)
    assert.equal((await first('DELETE', `/me/sessions/${other.id}`)).status, 404)
    // Another user's session is none of one's own.
    const [foreign] = (await admin.get('/me/sessions')).json
    assert.equal((await first('DELETE', `/me/sessions/${foreign.id}`)).status, 404)
  })

  test('has sessions that an administrator sees and ends, and an auditor does not', async () => {
    const password = await createAdministrator(service.database, 'saul', 'auditor')
    const saul = by(await login('saul', password))
    const { id } = (await saul('GET', '/me')).json
    assert.equal((await saul('GET', `/users/${id}/sessions`)).status, 403)
    const [session] = (await admin.get(`/users/${id}/sessions`)).json
    assert.equal(session.is_current, false)
    assert.equal((await admin.send('DELETE', `/users/${id}/sessions/${session.id}`)).status, 204)
    assert.equal((await saul('GET', '/me')).status, 401)
  })

  test('chooses a password that is long and not easy to guess; the other sessions end', async () => {
    const password = await createAdministrator(service.database, 'theo', 'auditor')
    const [here, there] = [by(await login('theo', password)), by(await login('theo', password))]
    const choose = (current_password: string, new_password: string) =>
      here('POST', '/me/password', { current_password, new_password })
    for (const weak of ['short', 'passwordpassword', 'theo@example.com-theo', 'x'.repeat(300)]) {
      const refused = await choose(password, weak)
      assert.deepEqual([refused.status, refused.json.fields[0].field], [400, 'new_password'], weak)
    }
    assert.equal((await choose('wrong', 'vacant orchid tram 61')).status, 403)
    assert.deepEqual((await choose(password, 'vacant orchid tram 61')).json, { ended_sessions: 1 })
    assert.equal((await there('GET', '/me')).status, 401)
    assert.equal((await here('GET', '/me')).status, 200)
    assert.ok(await login('theo', 'vacant orchid tram 61'))
    const entries = await sql<{ details: object }>(
      "SELECT details FROM admin_audit_log WHERE action = 'user.change_password'",
    )
    assert.deepEqual(entries, [{ details: { ended_sessions: 1 } }])
  })

  test('changes the own mail address; an administrator changes name and address of others', async () => {
    const password = await createAdministrator(service.database, 'ulla', 'auditor')
    const ulla = by(await login('ulla', password))
    assert.equal((await ulla('PATCH', '/me', { email: 'ulla@corp.example' })).json.email, 'ulla@corp.example')
    const { id } = (await ulla('GET', '/me')).json
    // The mails that warn of a stolen session would go to the thief.
    await sql("UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds' WHERE user_id = $1", [id])
    const refused = await ulla('PATCH', '/me', { email: 'thief@corp.example' })
    assert.deepEqual([refused.status, refused.json.error], [403, 'sign_in_again'])
    const change = (body: object) => admin.send('PATCH', `/users/${id}`, body)
    assert.equal((await change({ username: 'PIA' })).status, 409)
    assert.equal((await change({ username: 'no spaces' })).status, 400)
    assert.equal((await change({ username: 'Ulla', email: 'u@corp.example' })).json.username, 'Ulla')
    assert.ok(await login('ulla', password))
    const token = (await admin.send('POST', '/tokens', { name: 'renamer', role: 'admin' })).json.token
    assert.equal((await by(token)('PATCH', `/users/${id}`, { username: 'taken-over' })).status, 403)
  })
})
