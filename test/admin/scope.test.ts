/** What a registrar reaches: only accounts and credentials with one of its tags. The rest does not exist for it. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { type AcmeClient, type Responder, startResponder } from '../support/acme-client.ts'
import { SCOPE_CASES, type ScopeCase, type TeamObjects } from '../support/admin/scope-cases.ts'
import { type AdminClient, type AdminReplyText, administrator, clientWith } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, boundClient, change, type MadeCredential, made, NOBODY, newestEntries } from '../support/bound.ts'
import { sharedService } from '../support/shared-service.ts'
import { words } from '../support/words.ts'

const SCOPED = ENDPOINTS.filter(({ roles }) => roles !== 'none' && roles.includes('registrar'))

/** What nobody has. */
const NOTHING: TeamObjects = {
  tag: 'nobody',
  account: NOBODY,
  order: NOBODY,
  authorization: NOBODY,
  serial: '7b',
  fingerprint: '00'.repeat(32),
  credential: NOBODY,
  spare: NOBODY,
  name: 'nobody.test',
}

test('for every endpoint that a registrar may call there is a case of its scope', () => {
  assert.deepEqual(
    SCOPED.map(({ id }) => id).sort(),
    Object.keys(SCOPE_CASES).sort(),
    'test/support/admin/scope-cases.ts',
  )
})

describe('the scope of a registrar', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const registrar = as('registrar', 'registrar', ['team-a'])
  let responder: Responder
  let ours: TeamObjects
  let theirs: TeamObjects
  before(async () => {
    responder = await startResponder(service.http01Port)
    ours = await team('team-a')
    theirs = await team('team-b')
  })
  after(async () => {
    await responder.close()
  })

  /** Credentials, and an account with an order, a certificate and a failure. */
  async function team(tag: string): Promise<TeamObjects> {
    const name = `www.${tag}.test`
    const credential = await made<MadeCredential>(admin, '/eab', {
      kid: tag,
      tags: [tag],
      allowed_identifiers: [`*.${tag}.test`],
    })
    const spare = await made<MadeCredential>(admin, '/eab', { kid: `${tag} spare`, tags: [tag] })
    const client = await boundClient(service, credential)
    const account = accountIdOf(client)
    const leaf = new X509Certificate((await obtain(client, name)).der)
    const [order] = (await admin.get(`/orders?account_id=${account}`)).json
    const [authorization] = (await admin.get(`/orders/${order.id}`)).json.authorizations
    await sql(
      `INSERT INTO account_failures (account_id, event_id, kind, occurred_at, data)
       VALUES ($1::uuid, gen_random_uuid(), 'challenge.on_failure', now(), jsonb_build_object('account_id', $1::uuid::text))`,
      [account],
    )
    await sql(
      `UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + interval '10 days'
        WHERE account_id = $1`,
      [account],
    )
    return {
      tag,
      account,
      order: order.id,
      authorization: authorization.id,
      serial: leaf.serialNumber.toLowerCase().replace(/^(00)+/, ''),
      fingerprint: leaf.fingerprint256.replaceAll(':', '').toLowerCase(),
      credential: credential.id,
      spare: spare.id,
      name,
    }
  }
  const obtain = (client: AcmeClient, name: string) => client.obtain([name], responder)

  const ask = (who: AdminClient, id: string, { path, body }: ScopeCase, of: TeamObjects): Promise<AdminReplyText> => {
    const { method } = SCOPED.find((one) => one.id === id) as { method: string }
    return who.send(method, path(of), body?.(of))
  }

  /** Everything of it that another team could recognize. */
  const isAbout = ({ text }: AdminReplyText, { account, order, serial, credential, spare, name, tag }: TeamObjects) =>
    [account, order, serial, credential, spare, name, `"${tag}"`].filter((mark) => text.includes(mark))

  const casesOf = (kind: ScopeCase['kind']) => Object.entries(SCOPE_CASES).filter(([, one]) => one.kind === kind)

  for (const [id, one] of casesOf('list'))
    test(`${id} has rows of its own accounts and credentials alone`, async () => {
      for (const path of [one.all as string, `${one.all}?limit=1`, one.path(ours)]) {
        const reply = await registrar.get(path)
        assert.equal(reply.status, 200, reply.text)
        assert.ok(reply.json.length > 0, path)
        assert.deepEqual(isAbout(reply, theirs), [], reply.text)
      }
      assert.ok((await admin.get(one.all as string)).text.includes(theirs.account.slice(0, 8)))
    })

  /** Filters by what a registrar may know of others. */
  const FILTERS = {
    '/accounts': ['eab_kid=team-b', 'status=valid&eab_kid=team-b'],
    '/orders': ['account_id=THEIR_ACCOUNT', 'domain=www.team-b.test', 'status=valid&account_id=THEIR_ACCOUNT'],
    '/certificates': words`
      account_id=THEIR_ACCOUNT account_id=THEIR_ACCOUNT&sort=not_after serial=THEIR_SERIAL
      fingerprint=THEIR_FINGERPRINT domain=www.team-b.test domain_suffix=team-b.test
      status=active&domain=www.team-b.test renewed=false&account_id=THEIR_ACCOUNT
    `,
    '/eab': ['kid=team-b', 'status=open&kid=team-b'],
  }
  test('no filter shows that something of others is there', async () => {
    for (const [path, queries] of Object.entries(FILTERS))
      for (const query of queries) {
        const filled = query
          .replace('THEIR_ACCOUNT', theirs.account)
          .replace('THEIR_SERIAL', theirs.serial)
          .replace('THEIR_FINGERPRINT', theirs.fingerprint)
        const reply = await registrar.get(`${path}?${filled}`)
        assert.deepEqual([reply.status, reply.json, reply.headers.get('link')], [200, [], null], `${path} ${query}`)
        assert.notDeepEqual((await admin.get(`${path}?${filled}`)).json, [], `${path} ${query}`)
      }
  })

  test('a list ends after its own rows, by offset, by cursor, and from a cursor of others', async () => {
    for (const path of [
      '/certificates',
      '/certificates?sort=not_after',
      '/certificates?status=active',
      '/orders',
      '/accounts',
    ]) {
      const with_ = (more: string) => `${path}${path.includes('?') ? '&' : '?'}${more}`
      const whole = await registrar.get(with_('cursor='))
      assert.equal(whole.headers.get('link'), null, path)
      assert.deepEqual((await registrar.get(with_('offset=1'))).json, [], path)
      const [theirRow] = (await admin.get(`${path.replace(/\?.*/, '')}?limit=1`)).json
      const after = await registrar.get(with_(`cursor=${theirRow.id}`))
      assert.ok(after.json.length <= whole.json.length && isAbout(after, theirs).length === 0, path)
    }
  })

  for (const [id, one] of casesOf('many'))
    test(`${id} counts and changes certificates of its own accounts alone`, async () => {
      const advised = async () => (await sql('SELECT count(*)::integer AS n FROM renewal_advice'))[0]?.['n']
      if (id === 'clearRenewals') await admin.send('POST', '/renewals', { filter: { all: true } })
      if (id === 'unmuteAtRisk')
        await admin.send('POST', '/at-risk/mutes', { serial_numbers: [ours.serial, theirs.serial], reason: 'known' })
      const before = await advised()
      assert.equal((await ask(registrar, id, one, theirs)).json.certificates, 0)
      assert.equal(await advised(), before)
      assert.equal((await ask(registrar, id, one, ours)).json.certificates, 1)
      const { everything } = one
      if (everything) assert.equal((await ask(registrar, id, { ...one, body: () => everything }, ours)).status, 403)
    })

  for (const [id, one] of casesOf('one'))
    test(`${id} is refused for others as for what is not there`, async () => {
      const [refused, missing] = [await ask(registrar, id, one, theirs), await ask(registrar, id, one, NOTHING)]
      assert.equal(refused.status, id === 'createEabCredential' ? 403 : 404, refused.text)
      assert.deepEqual([missing.status, missing.json.message], [refused.status, refused.json.message])
      const mine = await ask(registrar, id, one, ours)
      assert.equal(mine.status, one.status ?? 200, mine.text)
    })

  for (const [id, one] of casesOf('parts'))
    test(`${id} has parts of its own accounts alone`, async () => {
      const mine = await ask(registrar, id, one, ours)
      assert.equal(mine.status, 200, mine.text)
      assert.ok(mine.text.includes(ours.serial), mine.text)
      const refused = await ask(registrar, id, one, theirs)
      assert.deepEqual(
        isAbout({ ...refused, text: refused.text.replaceAll(theirs.name, '') }, theirs),
        [],
        refused.text,
      )
      assert.ok((await ask(admin, id, one, theirs)).text.includes(theirs.serial))
    })

  for (const [id, one] of casesOf('self').filter(([id]) => id !== 'getMe'))
    test(`${id} concerns its own user alone`, async () => {
      const another = await administrator(service, `self-${id}`, 'registrar', ['team-a'])
      const wrong = await ask(another, id, one, ours)
      assert.equal(wrong.status, one.status ?? 200, wrong.text)
      assert.equal((await registrar.get('/me')).status, 200)
    })

  test('getSettings shows what its clients need, and neither secrets nor files', async () => {
    const { settings, file } = (await registrar.get('/settings')).json as { settings: { key: string }[]; file: unknown }
    const keys = settings.map(({ key }) => key)
    assert.equal(file, null)
    assert.ok(keys.includes('server.external_url') && keys.includes('acme.paths.directory'), keys.join())
    assert.deepEqual(
      keys.filter((key) => /secret|password|file|database|admin_api|smtp/.test(key)),
      [],
    )
    assert.ok(keys.length < 20, keys.join())
  })

  test('getOnboarding shows the CSR profiles of its own credentials alone', async () => {
    const profile = await made(admin, '/csr-profiles', { name: 'for both teams', profile_data: { san_maximum: 3 } })
    const names = async () =>
      (await registrar.get('/onboarding')).json.csr_profiles.map(({ name }: { name: string }) => name)
    await change(admin, 'PUT', `/eab/${theirs.credential}/csr-profile/${profile.id}`)
    assert.deepEqual(await names(), [])
    await change(admin, 'PUT', `/eab/${ours.credential}/csr-profile/${profile.id}`)
    assert.deepEqual(await names(), ['for both teams'])
    await change(admin, 'DELETE', `/eab/${ours.credential}/csr-profile/${profile.id}`)
  })

  test('without a tag in common, it sees nothing at all', async () => {
    const stranger = await administrator(service, 'stranger', 'registrar', ['team-c'])
    for (const [id, one] of casesOf('list')) assert.deepEqual((await ask(stranger, id, one, ours)).json, [], id)
    for (const [id, one] of casesOf('one'))
      assert.ok([403, 404].includes((await ask(stranger, id, one, ours)).status), id)
  })

  test('its scope holds from the next request on, and in a transaction under way', async () => {
    const user = (await admin.get('/users?username=registrar')).json[0]
    const widen = (scope: string[]) => admin.send('PATCH', `/users/${user.id}`, { scope })
    assert.equal((await widen(['team-a', 'team-b'])).json.scope.length, 2)
    assert.equal((await registrar.get(`/accounts/${theirs.account}`)).status, 200)
    assert.equal((await widen(['team-a'])).status, 200)
    assert.equal((await registrar.get(`/accounts/${theirs.account}`)).status, 404)
  })

  test('an API token has the tags that both it and its maker have', async () => {
    const { token } = await made<{ token: string }>(admin, '/tokens', {
      name: 'of a team',
      role: 'registrar',
      scope: ['team-a'],
    })
    const machine = clientWith(service.baseUrl, token)
    assert.equal((await machine.get(`/accounts/${ours.account}`)).status, 200)
    assert.equal((await machine.get(`/accounts/${theirs.account}`)).status, 404)
    assert.equal((await admin.send('POST', '/tokens', { name: 'x', role: 'registrar' })).status, 400)
    assert.equal((await admin.send('POST', '/tokens', { name: 'x', role: 'auditor', scope: ['team-a'] })).status, 400)
  })

  describe('a credential of a registrar', () => {
    const wish = (more: object) =>
      registrar.send('POST', '/eab', { kid: `wish ${Math.random()}`, tags: ['team-a'], ...more })

    test('has tags, all of them its own', async () => {
      for (const tags of [[], ['team-b'], ['team-a', 'team-b'], undefined])
        assert.equal((await wish({ tags })).status, 403, JSON.stringify(tags))
    })

    test('grants names that one credential with its tags grants, and names below', async () => {
      for (const name of ['www.team-a.test', '*.team-a.test', '*.x.team-a.test', 'team-a.test'])
        assert.equal((await wish({ allowed_identifiers: [name] })).status, 201, name)
      for (const name of ['www.team-b.test', '*.test', 'xteam-a.test', '192.0.2.1', '192.0.2.0/24'])
        assert.equal((await wish({ allowed_identifiers: ['www.team-a.test', name] })).status, 403, name)
    })

    test('stays within the profiles, networks, CSR profile and end of that credential', async () => {
      const profile = await made(admin, '/csr-profiles', { name: 'of team d', profile_data: { san_maximum: 3 } })
      const bounds = {
        profiles: ['default'],
        preapproved_networks: ['10.1.0.0/16'],
        allowed_networks: ['10.0.0.0/8'],
        expires_at: '2090-01-01',
        csr_profile_id: profile.id,
      }
      await made(admin, '/eab', { kid: 'team d', tags: ['team-d'], ...bounds })
      const rita = await administrator(service, 'rita', 'registrar', ['team-d'])
      const asked = (more: object) =>
        rita.send('POST', '/eab', { kid: `d ${Math.random()}`, tags: ['team-d'], ...bounds, ...more })
      for (const less of [
        {},
        { preapproved_networks: undefined },
        { preapproved_networks: ['10.1.2.0/24'] },
        { allowed_networks: ['10.7.7.7'] },
        { expires_at: '2080-01-01' },
      ])
        assert.equal((await asked(less)).status, 201, JSON.stringify(less))
      for (const member of ['profiles', 'allowed_networks', 'expires_at', 'csr_profile_id'])
        assert.equal((await asked({ [member]: undefined })).status, 403, `without ${member}`)
      for (const more of [
        { preapproved_networks: ['10.0.0.0/8'] },
        { allowed_networks: ['192.0.2.0/24'] },
        { expires_at: '2091-01-01' },
      ])
        assert.equal((await asked(more)).status, 403, JSON.stringify(more))
    })

    test('is not made where the only model is revoked, or has but some of the tags', async () => {
      const tina = await administrator(service, 'tina', 'registrar', ['team-e', 'team-f'])
      const model = await made(admin, '/eab', { kid: 'team e', tags: ['team-e'] })
      const asked = (tags: string[]) => tina.send('POST', '/eab', { kid: `e ${Math.random()}`, tags })
      assert.equal((await asked(['team-e', 'team-f'])).status, 403)
      assert.equal((await asked(['team-e'])).status, 201)
      await sql("UPDATE eab_credentials SET revoked = true WHERE 'team-e' = ANY (tags)")
      assert.equal((await asked(['team-e'])).status, 403)
      assert.equal((await tina.get(`/eab/${model.id}`)).json.revoked, true)
    })

    test('gives its tags to the accounts that register with it', async () => {
      const client = await boundClient(service, (await wish({})).json)
      assert.equal((await registrar.get(`/accounts/${accountIdOf(client)}`)).status, 200)
    })
  })

  test('a credential that is also of others, or has accounts of others, is not revoked by a registrar', async () => {
    const shared = await made<MadeCredential>(admin, '/eab', { kid: 'shared', tags: ['team-a', 'team-b'] })
    const moved = await made<MadeCredential>(admin, '/eab', { kid: 'moved', tags: ['team-a'] })
    const account = accountIdOf(await boundClient(service, moved))
    await sql("UPDATE accounts SET tags = '{team-b}' WHERE id = $1", [account])
    for (const { id } of [shared, moved]) {
      assert.equal((await registrar.get(`/eab/${id}`)).json.account_id, null)
      for (const reply of [
        await registrar.get(`/eab/${id}/cascade`),
        await registrar.send('POST', `/eab/${id}/revoke`),
      ]) {
        assert.equal(reply.status, 409, reply.text)
        assert.deepEqual(isAbout(reply, { ...theirs, account }), [])
      }
      assert.equal((await admin.get(`/eab/${id}`)).json.revoked, false)
    }
  })

  test('it takes no account by tags, gives none away, and does not lose one', async () => {
    const retag = (account: string, tags: string[]) => registrar.send('PATCH', `/accounts/${account}`, { tags })
    assert.equal((await retag(theirs.account, ['team-a'])).status, 404)
    for (const tags of [['team-a', 'team-b'], ['team-b'], []])
      assert.equal((await retag(ours.account, tags)).status, 403, tags.join())
    await admin.send('PATCH', `/accounts/${ours.account}`, { tags: ['team-a', 'plant'] })
    for (const tags of [['team-a'], ['plant'], ['team-a', 'team-b', 'plant']])
      assert.equal((await retag(ours.account, tags)).status, 403, tags.join())
    assert.deepEqual((await admin.get(`/accounts/${ours.account}`)).json.tags, ['plant', 'team-a'])
    assert.equal((await admin.send('PATCH', `/accounts/${ours.account}`, { tags: ['team-a'] })).status, 200)
  })

  test('it gives a credential only its own tags, leaves one, and what a tag grants does not grow', async () => {
    const tess = await administrator(service, 'tess', 'registrar', ['team-g', 'team-h'])
    const names = { allowed_identifiers: ['*.team-g.test'] }
    const { id } = await made<MadeCredential>(admin, '/eab', { kid: 'team g', tags: ['team-g', 'plant'], ...names })
    const tagsOf = async () => (await admin.get(`/eab/${id}`)).json.tags
    const retag = (who: AdminClient, tags: string[]) => who.send('PATCH', `/eab/${id}`, { tags })
    for (const tags of [[], ['plant'], ['team-g'], ['plant', 'team-a', 'team-g']])
      assert.equal((await retag(tess, tags)).status, 403, tags.join())
    const wider = ['plant', 'team-g', 'team-h']
    assert.equal((await retag(tess, wider)).status, 403)
    assert.deepEqual(await tagsOf(), ['plant', 'team-g'])
    await admin.send('PATCH', `/eab/${id}`, { tags: ['team-g'] })
    await made(admin, '/eab', { kid: 'model of both', tags: ['team-g', 'team-h'], ...names })
    assert.deepEqual((await retag(tess, ['team-h', 'team-g'])).json.tags, ['team-g', 'team-h'])
    assert.deepEqual((await retag(tess, ['team-h'])).json.tags, ['team-h'])
    assert.deepEqual(await newestEntries(admin, 1), [
      {
        action: 'eab.update',
        details: { eab_id: id, kid: 'team g', tags: { before: ['team-g', 'team-h'], after: ['team-h'] } },
      },
    ])
    assert.equal((await retag(admin, [])).status, 200)
  })

  test('a certificate of others is not revoked by naming its issuer, and no unknown one is recorded', async () => {
    const { issuer_fingerprint: issuer } = (await admin.get(`/certificates/${theirs.serial}`)).json
    for (const serial of [theirs.serial, '1234'])
      assert.equal((await registrar.send('POST', `/certificates/${serial}/revoke`, { issuer })).status, 404, serial)
    assert.equal((await admin.get('/certificates/1234')).status, 404)
    assert.equal((await admin.get(`/certificates/${theirs.serial}`)).json.revoked_at, null)
  })

  test('metrics are closed to it', async () => {
    const metrics = await fetch(`${service.baseUrl}/metrics`, {
      headers: { authorization: `Bearer ${registrar.token}` },
    })
    assert.equal(metrics.status, 403)
  })
})
