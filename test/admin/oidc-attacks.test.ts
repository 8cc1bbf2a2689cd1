/** What an OpenID Connect provider, and whoever sits between it and the service, may say. */

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { JWTPayload } from 'jose'
import { type HostileProvider, startHostileProvider } from '../support/admin/hostile-provider.ts'
import { CLIENT } from '../support/admin/oidc-provider.ts'
import { adminRequest, clientWith } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { made } from '../support/bound.ts'
import { configOf, sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('a provider of OpenID Connect', () => {
  const { service, sql, as } = administered(() => sharedService('identities'))
  const admin = as('alice')
  let provider: HostileProvider
  before(async () => {
    const oidc = configOf(service)['admin_api']?.['oidc'] as { issuer: string }
    provider = await startHostileProvider(oidc.issuer)
  })
  after(async () => {
    await provider?.close()
  })

  const post = (path: string, body: object) => adminRequest(service.baseUrl, 'POST', path, { body })

  async function begin() {
    const secret = randomBytes(32).toString('base64url')
    const binding = createHash('sha256').update(secret).digest('base64url')
    const { json } = await post('/auth/oidc/start', { binding })
    return { secret, url: json.url as string }
  }

  const finish = (query: string, secret: string) => post('/auth/oidc/finish', { query, secret })

  /** A whole sign-in, at which the provider says what it says. */
  async function signIn(says: HostileProvider['says'] = {}) {
    provider.says = says
    const { secret, url } = await begin()
    return finish(provider.reply(url), secret)
  }

  test('the request has PKCE, state and nonce, and the code comes with the verifier', async () => {
    const { secret, url } = await begin()
    const { searchParams } = new URL(url)
    assert.equal(searchParams.get('code_challenge_method'), 'S256')
    assert.ok((searchParams.get('nonce') ?? '').length >= 43)
    assert.equal((await finish(provider.reply(url), secret)).status, 200)
    const verifier = provider.codes.at(-1)?.verifier ?? ''
    assert.equal(createHash('sha256').update(verifier).digest('base64url'), searchParams.get('code_challenge'))
    assert.ok(!url.includes(verifier), 'the verifier stays here')
  })

  describe('an ID token is refused', () => {
    const now = Math.floor(Date.now() / 1000)
    const wrong: [string, HostileProvider['says']][] = [
      ['that nobody has signed', { signedBy: 'none' }],
      ['that another key has signed', { signedBy: 'foreign' }],
      ['that the secret of the client has signed', { signedBy: 'hmac' }],
      ['of another issuer', { claims: { iss: 'https://elsewhere.example' } }],
      ['for another client', { claims: { aud: 'another' } }],
      ['for several clients without saying for which', { claims: { aud: [CLIENT.id, 'another'] } }],
      ['that has expired', { claims: { exp: now - 3_600 } }],
      ['of another sign-in', { claims: { nonce: 'another' } }],
      ['without a nonce', { claims: { nonce: undefined } }],
      ['without a subject', { claims: { sub: undefined as never } }],
      ['with an empty subject', { claims: { sub: '' } }],
      ['with U+0000 in its subject', { claims: { sub: 'a\0b' } }],
      ['with U+0000 in its subject, and no group', { claims: { sub: 'a\0b', groups: [] } }],
    ]
    for (const [what, says] of wrong)
      test(what, async () => {
        const reply = await signIn(says)
        assert.equal(reply.status, 401, reply.text)
        assert.equal(reply.json.token, undefined)
      })
  })

  describe('the log names the reason of a failed sign-in: claim, value, what was expected and the way out', () => {
    const now = Math.floor(Date.now() / 1000)
    /** The log comes by a pipe of its own. */
    async function nextFailure(): Promise<string> {
      const before = service.log.length
      const found = () => service.log.slice(before).find(({ event }) => event === 'oidc_failed')
      await until('the reason in the log', found)
      return String(found()?.['reason'])
    }
    const error = (status: number, body: object) => ({ token: { status, body: JSON.stringify(body) } })
    const echo = { error: 'invalid_grant', error_description: `no ${CLIENT.secret}` }
    const failures: [string, HostileProvider['says'], RegExp][] = [
      [
        'a token of an hour ago',
        { claims: { exp: now - 3_600 } },
        /"exp" .*exp is \d+; it is \d+ here, 36\d\d seconds apart, and 30 are tolerated$/,
      ],
      [
        'a token of the next hour',
        { claims: { nbf: now + 3_600 } },
        /"nbf" .*nbf is \d+; it is \d+ here, 3[56]\d\d seconds apart/,
      ],
      [
        'another issuer',
        { claims: { iss: 'https://elsewhere.example' } },
        /iss is "https:\/\/elsewhere\.example", expected "http:\/\/127\.0\.0\.1:\d+"$/,
      ],
      ['another client', { claims: { aud: 'another' } }, /aud is "another", expected "chancery"$/],
      ['another algorithm', { signedBy: 'hmac' }, /alg is "HS256", kid is "k", expected \["RS256"\]$/],
      ['no nonce', { claims: { nonce: undefined } }, /^JWT "nonce" \(nonce\) claim missing$/],
      [
        'the way that the client authenticates',
        { clientBy: 'client_secret_post' },
        /HTTP status 401 of http:\/\/127\.0\.0\.1:\d+\/token; where the token endpoint refused it, compare admin_api\.oidc\.client_secret and token_endpoint_auth_method$/,
      ],
      [
        'an error, without our secret in it',
        error(400, echo),
        /"invalid_grant"; "no \(secret\)"; HTTP status 400 of .*\/token$/,
      ],
      [
        'a wrong secret',
        error(401, { error: 'invalid_client' }),
        /"invalid_client"; HTTP status 401 of .*; where the token endpoint refused it, compare/,
      ],
      ['an error of the server', error(502, {}), /HTTP status 502 of .*\/token$/],
      [
        'no JSON, without a part of it',
        { token: { status: 200, body: '{"access_token":"tok' } },
        /^failed to parse "response" body as JSON$/,
      ],
      [
        'another person at the UserInfo endpoint',
        { claims: { email: undefined }, userInfo: { sub: 'eve' } },
        /sub is "eve", expected "mallory"$/,
      ],
    ]
    for (const [what, says, reason] of failures)
      test(what, async () => {
        const failed = nextFailure()
        assert.equal((await signIn(says)).status, 401)
        assert.match(await failed, reason)
      })

    test('the address with which the browser came back', async () => {
      provider.says = {}
      const cases: [string, RegExp][] = [
        ['iss=https%3A%2F%2Felsewhere.example', /iss is "https:\/\/elsewhere\.example", expected "http:/],
        ['error=access_denied&error_description=no+consent', /"access_denied"; "no consent"$/],
      ]
      for (const [sent, reason] of cases) {
        const { secret, url } = await begin()
        const failed = nextFailure()
        const iss = `iss=${encodeURIComponent(provider.issuer)}`
        const query = provider.reply(url).replace(iss, sent.startsWith('iss') ? sent : `${iss}&${sent}`)
        assert.equal((await finish(query, secret)).status, 401)
        assert.match(await failed, reason)
      }
    })
  })

  describe('groups are compared whole', () => {
    const smuggled: [string, unknown][] = [
      ['a list in a text', 'ca-readers,ca-admins'],
      ['a text with spaces', 'ca-admins ca-readers'],
      ['JSON in a text', '["ca-admins"]'],
      ['another case', ['CA-Admins']],
      ['a prefix', ['ca-admins-of-another']],
      ['a path that ends so', ['/other/ca-admins']],
      ['an object', { 'ca-admins': true }],
      ['a list in a list', [['ca-admins']]],
      ['a number among them', ['ca-admins', 7]],
      ['too many', Array.from({ length: 1_001 }, () => 'ca-admins')],
      ['none', []],
      ['a look-alike', ['ca-admıns']],
    ]
    for (const [what, groups] of smuggled)
      test(`${what} gives no role`, async () => {
        const reply = await signIn({ claims: { sub: `smuggler-${what}`, groups } })
        assert.equal(reply.status, 401, reply.text)
      })
  })

  test('the first group of the configuration that a person has decides, with the tags of a registrar', async () => {
    const { json } = await signIn({
      claims: { sub: 'rena', preferred_username: 'rena', groups: ['ca-readers', 'ca-payments'] },
    })
    assert.deepEqual([json.user.role, json.user.scope], ['registrar', ['payments']])
  })

  /** Refused people share ten entries a minute. */
  const forgetRefused = () => sql('DELETE FROM admin_failed_logins', [])

  test('a username that another user has is not taken over', async () => {
    await forgetRefused()
    for (const preferred_username of ['alice', 'ALICE']) {
      const reply = await signIn({ claims: { sub: 'impostor', preferred_username, groups: ['ca-admins'] } })
      assert.equal(reply.status, 409, reply.text)
    }
    const wrong = await signIn({ claims: { sub: 'impostor', preferred_username: '../alice', groups: ['ca-admins'] } })
    assert.equal(wrong.status, 401)
    const entries = (await admin.get('/audit-log?action=auth.login_failed')).json as { details: { reason?: string } }[]
    assert.ok(entries.some(({ details }) => details.reason?.startsWith('there is another user "alice" here')))
  })

  test('another subject with the same mail address is another user', async () => {
    const email = 'alice@example.com'
    const { json } = await signIn({
      claims: { sub: 'other', preferred_username: 'other', email, groups: ['ca-readers'] },
    })
    assert.notEqual(json.user.id, (await admin.get('/me')).json.id)
    const unverified = {
      sub: 'third',
      preferred_username: 'third',
      email,
      groups: ['ca-readers'],
    }
    // Some providers write the claim as a text.
    for (const email_verified of [false, 'false', 0, null])
      assert.equal((await signIn({ claims: { ...unverified, email_verified } })).status, 401, String(email_verified))
  })

  test('whoever loses the groups loses sessions and API tokens, and a disabled user stays out', async () => {
    const person = { sub: 'lena', preferred_username: 'lena', groups: ['ca-admins'] }
    const { json } = await signIn({ claims: person })
    const lena = clientWith(service.baseUrl, json.token)
    const { token } = (await lena.send('POST', '/tokens', { name: 'lena', role: 'admin' })).json
    assert.equal((await signIn({ claims: { ...person, groups: ['ca-readers'] } })).json.user.role, 'auditor')
    assert.equal((await lena.send('POST', '/users', { username: 'x', email: 'x@corp.example' })).status, 403)
    assert.equal((await signIn({ claims: { ...person, groups: ['other'] } })).status, 401)
    assert.equal((await lena.get('/me')).status, 401)
    assert.equal((await clientWith(service.baseUrl, token).get('/me')).status, 401)
    await admin.send('PATCH', `/users/${json.user.id}`, { enabled: false })
    await forgetRefused()
    assert.equal((await signIn({ claims: person })).status, 401)
    const [entry] = (await admin.get('/audit-log?action=auth.login_failed')).json
    assert.deepEqual(
      [entry.details.username, entry.details.reason],
      ['lena', 'your user is disabled; ask an administrator'],
    )
  })

  test('API tokens end 90 days after the last sign-in by the provider, and are listed so', async () => {
    const person = { sub: 'tove', preferred_username: 'tove', groups: ['ca-admins'] }
    const recent = () => ({ ...person, auth_time: Math.floor(Date.now() / 1000) })
    const { json } = await signIn({ claims: recent() })
    const tove = clientWith(service.baseUrl, json.token)
    const later = { name: 'later', role: 'admin', expires_at: '2100-01-01T00:00:00Z' }
    const { token, id, expires_at } = (await tove.send('POST', '/tokens', { name: 'tove', role: 'admin' })).json
    const ofLater = (await tove.send('POST', '/tokens', later)).json
    const days = (at: string) => Math.round((Date.parse(at) - Date.now()) / 86_400_000)
    assert.deepEqual([days(expires_at), days(ofLater.expires_at)], [90, 90])
    const soon = new Date(Date.now() + 86_400_000).toISOString()
    assert.equal(
      (await made<{ expires_at: string }>(tove, '/tokens', { name: 'soon', expires_at: soon })).expires_at.slice(0, 16),
      soon.slice(0, 16),
    )
    const machine = clientWith(service.baseUrl, token)
    const ages = (interval: string) =>
      sql(`UPDATE admin_user_identities SET confirmed_at = now() - interval '${interval}' WHERE subject = 'tove'`)
    await ages('89 days')
    const listed = (await admin.get('/tokens')).json.find((one: { id: string }) => one.id === id)
    assert.equal(days(listed.expires_at), 1)
    assert.equal((await machine.get('/me')).status, 200)
    await ages('91 days')
    assert.deepEqual(
      [(await machine.get('/me')).status, (await clientWith(service.baseUrl, ofLater.token).get('/me')).status],
      [401, 401],
    )
    await signIn({ claims: recent() })
    assert.equal((await machine.get('/me')).status, 200)
    const { token: own } = await made<{ token: string }>(admin, '/tokens', { name: 'own', role: 'auditor' })
    const [mine] = (await admin.get('/tokens')).json
    assert.deepEqual([mine.expires_at, (await clientWith(service.baseUrl, own).get('/me')).status], [null, 200])
  })

  test('another claim that is refused ends nothing', async () => {
    await sql('DELETE FROM admin_failed_logins')
    const person = { sub: 'nina', preferred_username: 'nina', groups: ['ca-readers'] }
    const nina = clientWith(service.baseUrl, (await signIn({ claims: person })).json.token)
    const wrong: JWTPayload[] = [
      { email_verified: false },
      { email: 'no address' },
      { preferred_username: '../nina' },
      { groups: { 'ca-readers': true } },
    ]
    for (const claims of wrong) {
      const { status, text } = await signIn({ claims: { ...person, ...claims } })
      assert.deepEqual([status, (await nina.get('/me')).status], [401, 200], text)
    }
    const [failed] = (await admin.get('/audit-log?action=auth.login_failed')).json
    assert.deepEqual(failed.details, {
      username: 'nina',
      by: 'oidc',
      reason: `the provider's claim 'groups' is no list of groups: {"ca-readers":true}`,
      ended_sessions: 0,
      revoked_tokens: 0,
    })
  })

  describe('a provider that does not send the groups says nothing of them: the person keeps sessions and API tokens,', () => {
    const person = { sub: 'ines', preferred_username: 'ines', groups: ['ca-admins'] }
    const entra = { _claim_names: { groups: 'src1' }, _claim_sources: { src1: { endpoint: 'https://graph.example' } } }
    const many = Array.from({ length: 1_200 }, (_, at) => `group-${at}`)
    const absent: [string, JWTPayload, RegExp][] = [
      ['Entra from the 201st group on', { groups: undefined, ...entra }, /more groups than the provider puts .*roles/],
      [
        'Entra in the implicit flow',
        { groups: undefined, hasgroups: true },
        /more groups than the provider puts .*roles/,
      ],
      ['no claim', { groups: undefined }, /sent no claim 'groups'.*admin_api\.oidc\.groups_claim/],
      ['null', { groups: null }, /sent no claim 'groups'.*admin_api\.oidc\.groups_claim/],
      ['an empty text', { groups: '' }, /sent no claim 'groups'.*admin_api\.oidc\.groups_claim/],
      ['a number', { groups: 7 }, /'groups' is no list of groups: 7/],
      ['1,200 groups', { groups: many }, /'groups' has 1200 groups, and 1000 are the most/],
    ]
    for (const [what, claims, why] of absent)
      test(what, async () => {
        const recent = { ...person, auth_time: Math.floor(Date.now() / 1000) }
        const ines = clientWith(service.baseUrl, (await signIn({ claims: recent })).json.token)
        const { token } = await made<{ token: string }>(ines, '/tokens', { name: what, role: 'auditor' })
        const refusal = await signIn({ claims: { ...person, ...claims }, userInfo: { sub: 'ines' } })
        assert.equal(refusal.status, 401)
        assert.match(refusal.json.message, why)
        const still = [await ines.get('/me'), await clientWith(service.baseUrl, token).get('/me')]
        assert.deepEqual(
          still.map(({ status }) => status),
          [200, 200],
        )
      })
  })

  test('people without a group do not fill the audit log, and hide nobody who loses access', async () => {
    const person = { sub: 'otis', preferred_username: 'otis', groups: ['ca-readers'] }
    await signIn({ claims: person })
    const entries = async () => (await sql("SELECT FROM admin_audit_log WHERE action = 'auth.login_failed'")).length
    await sql(
      `INSERT INTO admin_failed_logins (minute, failures)
       SELECT date_trunc('minute', now()) + make_interval(mins => n), 10 FROM generate_series(0, 10) n
       ON CONFLICT (minute) DO UPDATE SET failures = 10`,
    )
    const before = await entries()
    assert.equal((await signIn({ claims: { ...person, sub: 'nobody', groups: [] } })).status, 401)
    assert.equal(await entries(), before)
    for (let i = 0; i < 2; i++) assert.equal((await signIn({ claims: { ...person, groups: [] } })).status, 401)
    assert.equal(await entries(), before + 1)
    await sql('DELETE FROM admin_failed_logins')
  })

  describe('the UserInfo endpoint', () => {
    const person = { sub: 'uma', preferred_username: 'uma', groups: ['ca-readers'] }
    const lacking = { ...person, email: undefined }
    const signedIn = async (claims: JWTPayload, userInfo: object) => (await signIn({ claims, userInfo })).status

    test('says whether the mail address that it gives is verified', async () => {
      const email = 'uma@corp.example'
      assert.equal(await signedIn(lacking, { sub: 'uma', email, email_verified: false }), 401)
      assert.equal(
        await signedIn({ ...lacking, email_verified: true }, { sub: 'uma', email, email_verified: false }),
        401,
      )
      assert.equal(
        await signedIn({ ...lacking, email_verified: false }, { sub: 'uma', email, email_verified: true }),
        200,
      )
      assert.equal(await signedIn(lacking, { sub: 'uma', email }), 200)
    })

    test('does not verify the mail address of the ID token', async () => {
      const claims = { ...person, groups: undefined, email: 'uma@corp.example', email_verified: false }
      const userInfo = { sub: 'uma', groups: ['ca-readers'], email: 'other@corp.example', email_verified: true }
      assert.equal(await signedIn(claims, userInfo), 401)
    })

    test('speaks of the same subject, or of nobody', async () => {
      for (const sub of ['lena', '', undefined, 7])
        assert.equal(await signedIn(lacking, { sub, email: 'uma@corp.example' }), 401, String(sub))
    })

    test('makes no sign-in recent, since nobody has signed what it says', async () => {
      const auth_time = Math.floor(Date.now() / 1000)
      const { json } = await signIn({ claims: lacking, userInfo: { sub: 'uma', email: 'uma@corp.example', auth_time } })
      const sessions = (await clientWith(service.baseUrl, json.token).get('/me/sessions')).json
      const { authenticated_at } = sessions.find((one: { is_current: boolean }) => one.is_current)
      assert.equal(authenticated_at, null)
    })
  })

  test('a session is as recent as the provider says, and never of the future', async () => {
    const now = Math.floor(Date.now() / 1000)
    const provedAt = async (auth_time: unknown) => {
      const claims = { sub: 'tim', preferred_username: 'tim', groups: ['ca-admins'], auth_time }
      const { json } = await signIn({ claims })
      const tim = clientWith(service.baseUrl, json.token)
      const asked = await tim.send('POST', '/tokens', { name: `t-${randomBytes(4).toString('hex')}`, role: 'auditor' })
      const sessions = (await tim.get('/me/sessions')).json
      return {
        asked: asked.status,
        at: sessions.find((one: { is_current: boolean }) => one.is_current).authenticated_at,
      }
    }
    assert.deepEqual(await provedAt(undefined), { asked: 403, at: null })
    assert.equal((await provedAt(now - 7_200)).asked, 403)
    assert.equal((await provedAt(now)).asked, 201)
    const { at } = await provedAt(now + 1e9)
    assert.ok(Date.parse(at) <= Date.now())
  })

  test('nobody signs in with a password as a user who has none, and that user cannot make one', async () => {
    const claims = { sub: 'nopass', preferred_username: 'nopass', groups: ['ca-readers'] }
    const { json } = await signIn({ claims: { ...claims, auth_time: Math.floor(Date.now() / 1000) } })
    const reset = await clientWith(service.baseUrl, json.token).send('POST', '/me/reset-password')
    assert.deepEqual([reset.status, reset.json.error], [403, 'forbidden'])
    for (const password of ['!', '', 'undefined'])
      assert.notEqual((await post('/auth/login', { username: 'nopass', password })).status, 200)
  })

  describe('the way back', () => {
    test('finishes in the browser that began alone, and its state cannot be made', async () => {
      const { url } = await begin()
      const victim = await begin()
      const query = provider.reply(url)
      assert.equal((await finish(query, victim.secret)).status, 401)
      const forged = query.replace(/state=[^&]+/, `state=${randomBytes(200).toString('base64url')}`)
      assert.equal((await finish(forged, victim.secret)).status, 401)
      assert.equal((await finish(query.replace(/state=[^&]+/, ''), victim.secret)).status, 401)
    })

    test('makes one request with our secret, however often it comes (RFC 6749 §4.1.2)', async () => {
      provider.says = {}
      const { secret, url } = await begin()
      const query = provider.reply(url)
      const before = provider.codes.length
      const replies = await Promise.all(Array.from({ length: 4 }, () => finish(query, secret)))
      const guesses = ['a', 'b', 'c'].map((code) => query.replace(/code=[^&]+/, `code=${code}`))
      for (const guess of guesses) assert.equal((await finish(guess, secret)).status, 401)
      const spelled = query.replace(/state=([^&]+)/, 'state=$1%3D')
      assert.equal((await finish(spelled, secret)).status, 401)
      assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 401, 401, 401])
      assert.equal(provider.codes.length - before, 1)
    })

    test('of another issuer, with an error or twice the same parameter is refused', async () => {
      for (const change of [
        (query: string) => query.replace(/iss=[^&]+/, 'iss=https%3A%2F%2Felsewhere.example'),
        (query: string) => `${query}&error=access_denied`,
        (query: string) => `${query}&code=another`,
        (query: string) => query.replace(/code=[^&]+/, ''),
      ]) {
        provider.says = {}
        const { secret, url } = await begin()
        assert.equal((await finish(change(provider.reply(url)), secret)).status, 401)
      }
    })

    test('may have a code of 12,000 characters, which the page of the console gets in its address', async () => {
      provider.says = {}
      const { secret, url } = await begin()
      const query = provider.reply(url, 'x'.repeat(12_000))
      assert.equal((await fetch(`${service.baseUrl}/api/console/?${query}`)).status, 200)
      assert.equal((await finish(query, secret)).status, 200)
    })

    test('is refused in form, cheaply: no secret, a long query, a provider that is not asked', async () => {
      const { secret, url } = await begin()
      const before = provider.codes.length
      assert.equal((await finish('x'.repeat(14_001), secret)).status, 400)
      assert.equal((await post('/auth/oidc/finish', { query: provider.reply(url), secret: 'short' })).status, 400)
      assert.equal(provider.codes.length, before)
    })
  })

  describe('a provider that is not well', () => {
    const replies: [string, { status: number; body: string }][] = [
      ['an error', { status: 400, body: '{"error":"invalid_grant"}' }],
      ['a redirect', { status: 302, body: '' }],
      ['no JSON', { status: 200, body: '<html>' }],
      ['a huge answer', { status: 200, body: `"${'x'.repeat(2_000_000)}"` }],
      ['no ID token', { status: 200, body: '{"access_token":"a","token_type":"Bearer"}' }],
    ]
    for (const [what, token] of replies)
      test(`sends ${what} for a code: nobody is signed in`, async () => {
        assert.equal((await signIn({ token })).status, 401)
      })

    test('is slow: passwords do not wait for it', async () => {
      const codes = provider.codes.length
      const begun = await Promise.all(Array.from({ length: 8 }, begin))
      let answer = () => {}
      provider.says = {
        held: new Promise((resolve) => {
          answer = resolve
        }),
      }
      let finished = 0
      const slow = begun.map(({ url, secret }) => finish(provider.reply(url), secret).finally(() => finished++))
      const login = await post('/auth/login', { username: 'alice', password: 'wrong' })
      const atLogin = finished
      answer()
      await Promise.all(slow)
      assert.deepEqual([login.status, atLogin, provider.codes.length - codes], [401, 0, 8])
    })

    test('leaves passwords alone, and no secret of it reaches log or audit', async () => {
      const { secret, url } = await begin()
      const query = provider.reply(url)
      await provider.close()
      assert.equal((await finish(query, secret)).status, 401)
      assert.equal((await admin.get('/me')).status, 200)
      const log = JSON.stringify(await sql('SELECT details FROM admin_audit_log', [])) + JSON.stringify(service.log)
      for (const word of ['code-', CLIENT.secret, 'code_verifier']) assert.ok(!log.includes(word), word)
    })
  })
})
