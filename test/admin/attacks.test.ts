/** Attacks on the Admin API: tokens, logins, races. Two instances share a database. */

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, beforeEach, describe, test } from 'node:test'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { noteStrangers } from '../../src/admin/users/login-attempts.ts'
import type { Config } from '../../src/config/schema.ts'
import { requireAuditKey } from '../../src/settings/admin-settings.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { administrator, adminRequest, clientWith, createAdministrator, TOKEN_SECRET } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { sharedService } from '../support/shared-service.ts'

const WRONG = 'not the password'

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

function sign(header: object, payload: object, secret: string, hash = 'sha256'): string {
  const text = `${encode(header)}.${encode(payload)}`
  return `${text}.${createHmac(hash, secret).update(text).digest('base64url')}`
}

const payloadOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString())

describe('attacks on the Admin API', () => {
  const { service, sql, as } = administered(() => sharedService('identities'))
  const admin = as('alice')
  let other: AdminInstance
  before(async () => {
    // Without a proxy that it trusts: every request to it comes from this machine.
    other = await adminInstance(service, { proxy: { enabled: false } })
  })
  after(async () => {
    await other?.close()
  })
  beforeEach(() => forgetFailures())

  const forgetFailures = async () => {
    await sql('DELETE FROM admin_login_limits')
    await sql('DELETE FROM admin_failed_logins')
  }
  const login = (username: string, password: string, address: string, at: { baseUrl: string } = service) =>
    adminRequest(at.baseUrl, 'POST', '/auth/login', {
      body: { username, password },
      headers: { 'x-forwarded-for': address },
    })
  const refuses = async (token: string, what: string) =>
    assert.equal((await clientWith(service.baseUrl, token).get('/me')).status, 401, what)
  const entries = async (action: string) =>
    (await admin.get(`/audit-log?action=${action}`)).json as { details: Record<string, unknown>; ip_address: string }[]

  describe('tokens', () => {
    const header = { alg: 'HS256', typ: 'JWT' }

    test('the way in which tokens are forged here makes a good one', async () => {
      const token = sign(header, payloadOf(admin.token), TOKEN_SECRET)
      assert.equal((await clientWith(service.baseUrl, token).get('/me')).status, 200)
    })

    test('another secret, another algorithm and another type are refused', async () => {
      const payload = payloadOf(admin.token)
      await refuses(sign(header, payload, `${TOKEN_SECRET}x`), 'another secret')
      await refuses(sign(header, payload, ''), 'an empty secret')
      await refuses(`${encode({ alg: 'none', typ: 'JWT' })}.${encode(payload)}.`, 'alg none')
      await refuses(`${encode({ alg: 'none' })}.${encode(payload)}.${admin.token.split('.')[2]}`, 'none, signed')
      await refuses(sign({ ...header, alg: 'RS256' }, payload, TOKEN_SECRET), 'RS256')
      await refuses(sign({ ...header, alg: 'HS512' }, payload, TOKEN_SECRET, 'sha512'), 'HS512')
      await refuses(sign({ ...header, typ: 'at+jwt' }, payload, TOKEN_SECRET), 'typ')
      await refuses(sign({ ...header, crit: ['x'], x: 1 }, payload, TOKEN_SECRET), 'crit')
      await refuses(sign(header, { ...payload, iss: 'somebody' }, TOKEN_SECRET), 'iss')
    })

    test('an expired token, one without a session, and an altered one are refused', async () => {
      const payload = payloadOf(admin.token)
      await refuses(sign(header, { ...payload, exp: Math.floor(Date.now() / 1000) - 1 }, TOKEN_SECRET), 'exp')
      await refuses(sign(header, { ...payload, jti: '01938c4e-0000-7000-8000-000000000000' }, TOKEN_SECRET), 'jti')
      await refuses(sign(header, { ...payload, jti: "' OR true --" }, TOKEN_SECRET), 'jti that is no UUID')
      const [first, , signature] = admin.token.split('.')
      await refuses(`${first}.${encode({ ...payload, role: 'admin', sub: 'x' })}.${signature}`, 'altered')
      for (const nonsense of ['x', '..', 'chancery_', `chancery_${'A'.repeat(43)}`, `${admin.token}x`])
        await refuses(nonsense, nonsense)
    })

    test('the role in a token counts for nothing', async () => {
      const auditor = await administrator(service, 'rolf', 'auditor')
      const token = sign(header, { ...payloadOf(auditor.token), role: 'admin' }, TOKEN_SECRET)
      assert.equal((await clientWith(service.baseUrl, token).get('/tokens')).status, 403)
    })

    test('after logout here, the token is dead on another instance', async () => {
      const user = await administrator(service, 'lola')
      const there = clientWith(other.baseUrl, user.token)
      assert.equal((await there.get('/me')).status, 200)
      assert.deepEqual((await user.send('POST', '/auth/logout')).json, { status: 'logged_out' })
      assert.equal((await there.get('/me')).status, 401)
    })

    test('a session that the database has ended is dead before its token expires', async () => {
      const user = await administrator(service, 'eddy')
      await sql('UPDATE admin_sessions SET expires_at = now() WHERE id = $1', [payloadOf(user.token).jti])
      await refuses(user.token, 'ended session')
    })

    test('a change of role counts in the session that runs', async () => {
      const user = await administrator(service, 'rita')
      const { id } = (await user.get('/me')).json
      await clientWith(other.baseUrl, admin.token).send('PATCH', `/users/${id}`, { role: 'auditor' })
      assert.equal((await user.send('POST', '/tokens', { name: 'x' })).status, 403)
    })
  })

  describe('logins', () => {
    test('unknown user, wrong password and disabled user get the same answer', async () => {
      await createAdministrator(service.database, 'wendy')
      const password = await createAdministrator(service.database, 'denis', 'auditor')
      await sql("UPDATE admin_users SET enabled = false WHERE username = 'denis'")
      const replies = [
        await login('nobody', WRONG, '192.0.2.1'),
        await login('wendy', WRONG, '192.0.2.1'),
        await login('denis', password, '192.0.2.1'),
      ]
      const seen = replies.map(({ status, json: { request_id: _, ...body } }) => JSON.stringify([status, body]))
      assert.equal(new Set(seen).size, 1)
      assert.equal(replies[0]?.status, 401)
    })

    test('an unknown user costs the time of a known one', async () => {
      await createAdministrator(service.database, 'tim')
      const median = (values: number[]) => values.toSorted((a, b) => a - b)[5] as number
      const measured = async () => {
        const times: Record<'tim' | 'nobody', number[]> = { tim: [], nobody: [] }
        for (let round = 0; round < 11; round++)
          for (const name of ['tim', 'nobody'] as const) {
            await forgetFailures()
            const startedAt = performance.now()
            await login(name, WRONG, '192.0.2.2')
            times[name].push(performance.now() - startedAt)
          }
        return median(times.tim) / median(times.nobody)
      }
      // Without a hash, an unknown user is refused ten times as fast, each time that it is measured.
      const ratios: number[] = []
      const alike = () => ratios.some((ratio) => ratio > 1 / 3 && ratio < 3)
      while (!alike() && ratios.length < 3) ratios.push(await measured())
      assert.ok(alike(), `known/unknown ${ratios.map((ratio) => ratio.toFixed(2))}`)
    })

    test('five failures lock a username on every instance, with audit entries', async () => {
      const password = await createAdministrator(service.database, 'umberto')
      for (let i = 1; i <= 5; i++) assert.equal((await login('Umberto', WRONG, `192.0.2.${10 + i}`)).status, 401)
      const reply = await login('umberto', password, '192.0.2.30', other)
      assert.deepEqual([reply.status, reply.json.error], [429, 'rate_limited'])
      const wait = Number(reply.headers.get('retry-after'))
      assert.ok(wait > 0 && wait <= 900, `${wait}`)
      const [locked] = await entries('auth.locked')
      assert.deepEqual([locked?.details.subject, locked?.ip_address], ['username umberto', '192.0.2.15'])
      const [failed] = await entries('auth.login_failed')
      assert.equal(failed?.details.username, 'Umberto')
    })

    /** As many failures from an address, the last of them now. */
    const failuresFrom = (address: string, failures: number) =>
      sql('INSERT INTO admin_login_limits (subject, failures, window_began_at) VALUES ($1, $2, now())', [
        `address ${address}`,
        failures,
      ])

    test('fifty failures lock an address, for every username; five do not', async () => {
      const password = await createAdministrator(service.database, 'adele')
      for (let i = 1; i <= 5; i++) assert.equal((await login(`guess${i}`, WRONG, '192.0.2.40')).status, 401)
      assert.equal((await login('adele', password, '192.0.2.40')).status, 200)
      await failuresFrom('192.0.2.42', 49)
      assert.equal((await login('guess', WRONG, '192.0.2.42')).status, 401)
      assert.equal((await login('adele', password, '192.0.2.42')).status, 429)
      assert.equal((await login('adele', password, '192.0.2.41')).status, 200)
      const [locked] = await entries('auth.locked')
      assert.equal(locked?.details.subject, 'address 192.0.2.42')
    })

    test('from the fifth failure on, an address waits for each answer', async () => {
      await failuresFrom('192.0.2.43', 4)
      const startedAt = performance.now()
      assert.equal((await login('guess', WRONG, '192.0.2.43')).status, 401)
      assert.ok(performance.now() - startedAt >= 1_000)
    })

    test('a locked username locks no address from which the user has come lately', async () => {
      const password = await createAdministrator(service.database, 'karla')
      assert.equal((await login('karla', password, '192.0.2.50')).status, 200)
      for (let i = 1; i <= 5; i++) await login('karla', WRONG, `192.0.2.${60 + i}`)
      assert.equal((await login('karla', password, '192.0.2.70')).status, 429)
      assert.equal((await login('karla', password, '192.0.2.50')).status, 200)
      for (let i = 1; i <= 5; i++) await login('karla', WRONG, `192.0.2.${60 + i}`)
      await sql("UPDATE admin_login_addresses SET last_login_at = now() - interval '25 hours'")
      assert.equal((await login('karla', password, '192.0.2.50')).status, 429)
    })

    test('who mistypes at a known address ends no lock of his username', async () => {
      const password = await createAdministrator(service.database, 'lothar')
      assert.equal((await login('lothar', password, '192.0.2.110')).status, 200)
      for (let i = 1; i <= 5; i++) await login('lothar', WRONG, `192.0.2.${110 + i}`)
      await sql("UPDATE admin_login_limits SET window_began_at = now() - interval '301 s' WHERE subject LIKE '%lothar'")
      assert.equal((await login('lothar', WRONG, '192.0.2.110')).status, 401)
      assert.equal((await login('lothar', password, '192.0.2.119')).status, 429)
    })

    test('a password in the field of the username does not get into the audit log', async () => {
      const password = 'Xk!3 #a$v%w^'
      await login(password, WRONG, '192.0.2.90')
      const all = await sql('SELECT details::text FROM admin_audit_log')
      assert.ok(all.every(({ details }) => !String(details).includes('Xk!3')))
      const [entry] = await entries('auth.login_failed')
      assert.equal(entry?.details['username'], null)
    })

    test('however many strangers guess, a minute has few entries, and one that counts the others', async () => {
      await createAdministrator(service.database, 'vera')
      const failed = async () => {
        const { json } = await admin.get('/audit-log?action=auth.login_failed&limit=1000')
        const all: { username: string | null; others?: number }[] = json.map(
          ({ details }: { details: object }) => details,
        )
        const others = all.reduce((sum, details) => sum + Number(details.others ?? 0), 0)
        const single = all.filter((details) => details.others === undefined)
        const own = single.filter(({ username }) => username === 'vera').length
        return { others, own, strangers: single.length - own }
      }
      const minute = () => Math.floor(Date.now() / 60_000)
      const [before, begun] = [await failed(), minute()]
      for (let n = 0; n < 45; n++) await login(`nobody${n}`, WRONG, `198.51.100.${100 + n}`)
      for (let n = 0; n < 3; n++) await login('vera', WRONG, `198.51.100.${200 + n}`)
      const minutes = minute() - begun + 1
      const written = await failed()
      const strangers = written.strangers - before.strangers
      assert.ok(strangers <= 20 * minutes, `${strangers} entries in ${minutes} minutes`)
      assert.equal(written.own, 3, 'a user that there is has an entry for each')
      await sql("UPDATE admin_failed_logins SET minute = minute - interval '5 minutes'")
      const db = await openCheckedDatabase(settingsFor(service.database.connection, 1))
      try {
        const key = requireAuditKey({ admin_api: { audit_key_file: null, token_secret: TOKEN_SECRET } } as Config)
        await noteStrangers(new AuditLog(db, key))
      } finally {
        await db.end()
      }
      const others = (await failed()).others - before.others
      assert.equal(strangers + others, 45)
      assert.deepEqual(await sql('SELECT * FROM admin_failed_logins'), [])
    })

    test('spellings that the database takes for one username share its lock', async () => {
      await createAdministrator(service.database, 'kilian')
      for (const [n, name] of ['\u212ailian', 'KILIAN', 'K\u0130LIAN', 'k\u0131lian', '\u212aILIAN'].entries())
        await login(name, WRONG, `198.51.100.${220 + n}`)
      const found = await sql("SELECT count(*) FROM admin_login_limits WHERE subject LIKE 'username k%'")
      const shared = await sql("SELECT failures FROM admin_login_limits WHERE subject = 'username kilian'")
      // Which of them PostgreSQL folds depends on its locale; each that it does counts for the user.
      const hits = await sql("SELECT count(*) FROM unnest($1::text[]) AS name WHERE lower(name) = 'kilian'", [
        ['\u212ailian', 'KILIAN', 'K\u0130LIAN', 'k\u0131lian', '\u212aILIAN'],
      ])
      assert.equal(Number(shared[0]?.['failures']), Number(hits[0]?.['count']))
      assert.ok(Number(found[0]?.['count']) >= 1)
    })

    test('guesses sent at once are not more guesses', async () => {
      const password = await createAdministrator(service.database, 'paul')
      const guesses = Array.from({ length: 30 }, (_, i) =>
        login('paul', `guess ${i}`, `198.51.100.${i}`, i % 2 ? other : service),
      )
      const replies = await Promise.all(guesses)
      assert.ok(replies.every(({ status }) => status === 401 || status === 429))
      assert.equal((await login('paul', password, '198.51.100.99')).status, 429)
    })

    test('a client cannot choose the address that is counted', async () => {
      await failuresFrom('127.0.0.1', 48)
      for (let i = 1; i <= 2; i++) await login(`spoof${i}`, WRONG, `203.0.113.${i}`, other)
      assert.equal((await login('nobody', WRONG, '203.0.113.9', other)).status, 429)
    })
  })

  describe('requests', () => {
    test('members that nobody may set are refused', async () => {
      const { id } = (await admin.get('/me')).json
      const attempts: [string, string, Record<string, unknown>, string][] = [
        ['POST', '/users', { username: 'm', email: 'm@example.com', password_hash: 'x' }, 'password_hash'],
        ['POST', '/users', { username: 'm', email: 'm@example.com', id }, 'id'],
        ['PATCH', `/users/${id}`, { enabled: true, password_hash: 'x' }, 'password_hash'],
        ['POST', '/tokens', { name: 'x', created_by: id }, 'created_by'],
        ['POST', '/auth/login', { username: 'a', password: 'b', role: 'admin' }, 'role'],
      ]
      for (const [method, path, body, field] of attempts) {
        const reply = await admin.send(method, path, body)
        assert.deepEqual([reply.status, reply.json.fields[0].field], [400, field], `${method} ${path}`)
      }
      const proto = await admin.send('POST', '/tokens', '{"name":"x","__proto__":{"role":"admin"}}')
      assert.equal(proto.status, 400)
    })

    test('no other origin is let in, and no cookie counts', async () => {
      const headers = { origin: 'https://evil.example', cookie: `token=${admin.token}` }
      for (const [method, token] of [
        ['OPTIONS', undefined],
        ['GET', undefined],
        ['GET', admin.token],
      ] as const) {
        const reply = await adminRequest(service.baseUrl, method, '/users', { headers, ...(token && { token }) })
        assert.deepEqual(
          [...reply.headers.keys()].filter((name) => name.startsWith('access-control')),
          [],
        )
        if (!token) assert.ok(reply.status >= 400)
      }
      const form = await adminRequest(service.baseUrl, 'POST', '/auth/login', {
        body: 'username=alice&password=x',
        headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
      })
      assert.equal(form.status, 415)
    })

    test('wildcards and quotes of SQL mean themselves', async () => {
      for (const action of ['%', 'user.%', 'user_create', "' OR true --", '*'])
        assert.deepEqual((await admin.get(`/audit-log?action=${encodeURIComponent(action)}`)).json, [])
    })

    test('no text of a request becomes a header or a line', async () => {
      const crlf = encodeURIComponent('a\r\nX-Evil: 1')
      for (const path of [`/audit-log?action=${crlf}&limit=1`, `/audit-log?cursor=${crlf}`, `/users/${crlf}`])
        assert.equal((await admin.get(path)).headers.get('x-evil'), null)
      for (const name of ['a\r\nb', 'a\u202eb', 'a\u0000'])
        assert.equal((await admin.send('POST', '/tokens', { name })).status, 400)
      await login('x\r\n{"event":"forged"}', WRONG, '192.0.2.80')
      assert.ok(service.log.every(({ event }) => event !== 'forged'))
    })
  })

  describe('two administrators at once', () => {
    const admins = async () =>
      Number((await sql("SELECT count(*) FROM admin_users WHERE role = 'admin' AND enabled"))[0]?.count)

    for (const [what, method, body] of [
      ['delete', 'DELETE', undefined],
      ['demote', 'PATCH', { role: 'auditor' }],
      ['disable', 'PATCH', { enabled: false }],
    ] as const)
      test(`of two who ${what} each other, one stays an admin`, async () => {
        for (let round = 0; round < 2; round++) {
          await sql('DELETE FROM admin_users')
          const [anna, bert] = [await administrator(service, 'anna'), await administrator(service, 'bert')]
          const [annaId, bertId] = [(await anna.get('/me')).json.id, (await bert.get('/me')).json.id]
          const replies = await Promise.all([
            anna.send(method, `/users/${bertId}`, body),
            clientWith(other.baseUrl, bert.token).send(method, `/users/${annaId}`, body),
          ])
          assert.equal(await admins(), 1, replies.map(({ status }) => status).join())
          assert.equal(replies.filter(({ status }) => status < 300).length, 1)
        }
        await sql('DELETE FROM admin_users')
        Object.assign(admin, await administrator(service, 'alice'))
      })
  })
})
